"""Tests slopes of a score_mod that the caller gives, and check_score_text(), which compares them with derivatives."""

from __future__ import annotations

from typing import Any

import fa2
import numpy as np
import pytest

GAINS = np.array([1.0, 2.0], np.float32)
SIZES: dict[str, Any] = dict(batch=2, heads_q=2, seqlen_q=5, seqlen_k=7)
SQUARE = "return gain(at.head) * score * score;"


def check(text: Any, **arguments: Any) -> None:
    fa2.check_score_text(score_mod=text, **{**SIZES, **arguments})


def test_a_slope_is_compared_with_the_derivative() -> None:
    check(fa2.ScoreText(SQUARE, {"gain": GAINS}))
    check(fa2.ScoreText(SQUARE, {"gain": GAINS[::-1]}, mod_slope="return 2 * gain(at.head) * score;"))
    wrong = fa2.ScoreText(SQUARE, {"gain": GAINS}, mod_slope="return 2 * score;")
    with pytest.raises(fa2.InvalidRequest, match=r"mod_slope = .*, must be .*, d mod / d score, at score .*, batch \d, head 1, query \d, key \d"):
        check(wrong)
    check(wrong, heads_q=1)  # right for the first head
    check(fa2.ScoreText("return score * n();", {"n": 3}, mod_slope="return n();"), bias=fa2.ScoreText("return 1.0f;"))


def test_slopes_of_functions() -> None:
    gains = fa2.Table(GAINS)

    def square(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return gains[h] * s * s + k

    right = fa2.score_text(score_mod=square, mod_slope=lambda s, b, h, q, k: 2 * gains[h] * s)
    assert right.mod_slope is not None
    assert len(right.captures) == 1
    check(right)
    with pytest.raises(fa2.InvalidRequest, match=r"mod_slope = 1, must be "):
        check(fa2.score_text(score_mod=square, mod_slope=lambda s, b, h, q, k: 1.0))
    check(square)  # without a slope: that it compiles
    with pytest.raises(fa2.InvalidType, match=r"mod_slope = a function of \(s\), must take \(score, batch, head, query, key\)"):
        fa2.score_text(score_mod=square, mod_slope=lambda s: s)


def test_what_is_refused() -> None:
    with pytest.raises(fa2.InvalidRequest, match="mod_slope = return 1;, must be empty without mod"):
        check(fa2.ScoreText("", mod_slope="return 1;"), mask_mod=fa2.ScoreText("return true;"))
    with pytest.raises(fa2.InvalidRequest, match="bias.mod_slope = 'return 1;', must be None: only a score_mod has a slope"):
        fa2.check_score_text(bias=fa2.ScoreText("return 1.0f;", mod_slope="return 1;"), **SIZES)
    with pytest.raises(fa2.InvalidRequest, match="mod_slope = .*, must be None: only a score_mod has a slope"):
        fa2.score_text(bias=lambda b, h, q, k: k, mod_slope=lambda s, b, h, q, k: s)
    with pytest.raises(fa2.InvalidType, match="score_mod.mod_slope = 1, must be a str or None"):
        check(fa2.ScoreText("return score;", mod_slope=1))  # type: ignore[arg-type]
    with pytest.raises(fa2.InvalidRequest, match="must be of a function that changes or hides scores"):
        fa2.check_score_text(**SIZES)
    with pytest.raises(fa2.InvalidType, match=r"captures.gain.dtype = float64"):
        check(fa2.ScoreText(SQUARE, {"gain": GAINS.astype(np.float64)}))
    with pytest.raises(fa2.InvalidRequest, match=r"captures.gain.sizes\[0\] = 0"):
        check(fa2.ScoreText(SQUARE, {"gain": GAINS[:0]}))
    with pytest.raises(TypeError, match="seqlen_q = 'x', must be an integer"):
        check(fa2.ScoreText("return score;"), seqlen_q="x")


def test_what_does_not_compile() -> None:
    with pytest.raises(fa2.CompileError, match=r"a file\.cu \(mod_slope\):1"):
        check(fa2.ScoreText("return score;", file="a file.cu", line=9, mod_slope="return nonsense;"))
    with pytest.raises(fa2.CompileError, match=r"a file\.cu:9"):  # a float where derivatives are wanted
        check(fa2.ScoreText("const float x = score; return x;", file="a file.cu", line=9))


def test_tensors_and_gradients() -> None:
    torch = pytest.importorskip("torch")
    gain = torch.tensor(GAINS, requires_grad=True)
    right = "return 2 * gain(at.head) * score;"
    check(fa2.ScoreText(SQUARE, {"gain": gain}, mod_slope=right))
    with pytest.raises(fa2.InvalidRequest, match="captures.gain.device = meta, must be cpu"):
        check(fa2.ScoreText(SQUARE, {"gain": gain.detach().to("meta")}))

    def gradients(slope: str | None) -> Any:
        torch.manual_seed(5)
        tensors = [torch.randn(1, 9, 2, 16).half().requires_grad_() for _ in range(3)]
        text = fa2.ScoreText(SQUARE, {"gain": gain}, mod_slope=slope)
        return torch.autograd.grad(fa2.attention(*tensors, score_mod=text).sum(), (*tensors[:2], gain))

    derived, given, twice = gradients(None), gradients(right), gradients("return 4 * gain(at.head) * score;")
    for a, b, c in zip(derived[:2], given, twice):
        assert a.abs().max() > 0.1
        assert torch.allclose(a, b, atol=1e-3, rtol=1e-2)
        assert torch.allclose(2 * a, c, atol=2e-3, rtol=1e-2)
    assert torch.allclose(derived[2], twice[2])  # the derivative by a capture is the text's


def test_explain_has_the_slope() -> None:
    q = np.zeros((1, 9, 2, 16), np.float16)
    plain = fa2.ScoreText("return score * 3;")
    text = fa2.ScoreText(plain.text, mod_slope="return 3;")
    found = fa2.explain(q, q, q, score_mod=text)
    assert found["texts"] == {"score_mod": text.text, "mod_slope": text.mod_slope}
    assert fa2.explain(q, q, q, score_mod=plain)["texts"] == {"score_mod": text.text}
