"""Bugs in a softcap's constants and beyond its series; see mutations.py."""
SOFTCAP = "attention/common/softcap.cuh"
CONSTANTS = "../planning/attention_params.cpp"

CAPPED_SCORES = [
    (CONSTANTS, "the series ends at a quarter of any cap", "std::min(TanhSeries::kEnd / x, kFarthest)", "std::min(TanhSeries::kEnd / x, FLT_MAX * kFarthest)"),
    (CONSTANTS, "constants of a cap that is far above every score", "std::max(x, kLeast)", "std::max(x, 0.0 * kLeast)"),
    (CONSTANTS, "constants of tanh's argument per score of 0", "/ softcap, FLT_MIN, 1", "/ softcap, 0.0, 1"),
    (CONSTANTS, "a series whose guesses are flushed to 0", "is_usable(factor) && is_usable(std::fabs(factor_log2))", "is_usable(factor)"),
    (CONSTANTS, "a series of factors beyond any float", "value <= kLargestFactor", "value <= DBL_MAX * kLargestFactor"),
    (CONSTANTS, "a large cap taken for a small one", "softcap > kLarge", "softcap > 0x1p100f * kLarge"),
    (SOFTCAP, "small scores beside a large cap without their cubic term", "square, kQuintic, kCubic", "square, kQuintic, 0.0f"),
    (SOFTCAP, "a large cap's scores by the series beyond its end", "square <= kEnd * kEnd", "square <= 8.0f"),
]
