"""Texts of traced functions, without PyTorch: how they are printed, what they compute, what they read, and what is refused."""

from __future__ import annotations

import itertools
import math
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import fa2
import numpy
import pytest
from fa2._score_trace import Captures, Table, trace_bias, trace_mask, trace_mod
from score_oracle import Oracle

SLOPES = numpy.linspace(-1, 1, 4, dtype=numpy.float32)
DOCUMENTS = numpy.repeat(numpy.arange(8), 5)
RELATIVE = numpy.arange(4 * 33, dtype=numpy.float32).reshape(4, 33)


def test_shared_expressions_are_statements_and_what_rows_share_comes_first() -> None:
    table = Table(SLOPES)
    traced = trace_mod(lambda s, b, h, q, k: s * 0.5 + (k - q) * (k - q) * table[h] * s)
    assert traced.text == "const auto t0 = c0(at.head);\nconst auto t1 = at.key - at.query;\nreturn score * 0.5f + t1 * t1 * t0 * score;"


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("at.query - (at.key - at.head) - 1", lambda b, h, q, k: q - (k - h) - 1),
        ("(at.query + 1) * at.key * -2", lambda b, h, q, k: (q + 1) * k * -2),
        ("-(at.query + 1) - -3", lambda b, h, q, k: -(q + 1) - -3),
        ("-(at.key - at.query) * 3", lambda b, h, q, k: -(k - q) * 3),
        ("at.query * 0.25f", lambda b, h, q, k: q / 4),
        ("at.query / float(at.key)", lambda b, h, q, k: q / k),
        ("at.key / 3 + at.key % 3 + (at.key >> 2) + (at.key & 7)", lambda b, h, q, k: k // 3 + k % 3 + k // 4 + k % 8),
        ("floor_div(at.query - at.key, 3)", lambda b, h, q, k: (q - k) // 3),
        ("(at.query - at.key) >> 4", lambda b, h, q, k: (q - k) // 16),
        ("at.query + 3000000000LL", lambda b, h, q, k: q.long() + 3000000000),
        ("(at.query > 2) + 1", lambda b, h, q, k: (q > 2) + 1),
        ("(at.query >> (at.key & 31)) & 1", lambda b, h, q, k: (q >> (k & 31)) & 1),
    ],
)
def test_expressions_have_the_brackets_that_they_need(text: str, function: Callable[..., Any]) -> None:
    printed = trace_bias(function).text.removeprefix("return ").removesuffix(";").replace("static_cast<long long>(at.query)", "at.query")
    assert printed in (text, f"float({text})")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1f", 0.1),
        ("1.0f", 1),
        ("-2.5f", -2.5),
        ("1e-07f", 1e-7),
        ("-1000000000.0f", -1e9),
        ("1e+20f", 1e20),
        ("1.442695f", math.log2(math.e)),
        ("0.33333334f", numpy.float32(1) / 3),
        ("infinity()", math.inf),
        ("-infinity()", -1e39),
        ("nan()", math.nan),
        ("3.4028235e+38f", 3.4028234663852886e38),
    ],
)
def test_constants_are_those_float32(text: str, value: float) -> None:
    assert trace_bias(lambda b, h, q, k: value).text == f"return {text};"


def test_loops_of_python_make_long_texts() -> None:
    def deep(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        for i in range(3000):
            s = s * s + i
        return s

    assert trace_mod(deep).text.count("\n") == 2999


# Functions of operators alone: Python computes them too.
MASKS: list[Callable[..., Any]] = [
    lambda b, h, q, k: (q >= k) & (q - k < 5 + h),
    lambda b, h, q, k: (q - k) % 3 == b,
    lambda b, h, q, k: (q - 20) // -7 + (k - q) % -4 < -1,
    lambda b, h, q, k: (q / 3 > k / 7) | ((q ^ k) & 4 == 4),
    lambda b, h, q, k: (q - k) ** 2 + 2**h > 40,
    lambda b, h, q, k: ((k << 2) - (q - k >> 1)) & 3 == 2,
    lambda b, h, q, k: abs(q - k) <= 3,
    lambda b, h, q, k: DOCUMENT_TABLE[q] == DOCUMENT_TABLE[k],
    lambda b, h, q, k: RELATIVE_TABLE[h, q - k] > 40,
    lambda b, h, q, k: RELATIVE_TABLE[h][..., (q * 3 - k) % 33] * SLOPE_TABLE[h] < 20.5,
]
DOCUMENT_TABLE, RELATIVE_TABLE, SLOPE_TABLE = Table(DOCUMENTS), Table(RELATIVE[:, ::-1][:, :33]), Table(SLOPES)


def test_texts_compute_what_python_does(tmp_path: pathlib.Path) -> None:
    oracle = Oracle(tmp_path, [("mask", trace_mask(mask)) for mask in MASKS])
    grid = list(itertools.product(range(2), range(4), range(0, 32, 3), range(0, 33, 2)))
    for number, mask in enumerate(MASKS):
        values, _ = oracle.run(number, grid, [0.0] * len(grid))
        assert values == [float(mask(*position)) for position in grid], number


def test_numpys_functions_compute_too(tmp_path: pathlib.Path) -> None:
    def mod(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return numpy.where(numpy.logical_and(q > k, s > 0), numpy.tanh(s) + numpy.float32(0.5), numpy.maximum(s, numpy.clip(s, -1, 0) * 2))

    values, _ = Oracle(tmp_path, [("mod", trace_mod(mod))]).run(0, [(0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0)], [0.5, -0.25, -3.0])
    assert values == pytest.approx([math.tanh(0.5) + 0.5, -0.25, -2.0])


def parts_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the bias and the mask of a mod; "": none."""
    parts = trace_mod(function).as_sum
    assert parts is not None
    assert not any(part.depends_on_score for part in (parts.bias, parts.mask) if part is not None)
    return tuple("" if part is None else part.text for part in (parts.bias, parts.mask))


def test_a_bias_in_a_mod_is_found() -> None:
    table = Table(SLOPES)
    forms: dict[str, Callable[..., Any]] = {
        "return c0(at.key) * 2.0f;": lambda s, b, h, q, k: s + table[k] * 2,
        "return 1.0f + at.key;": lambda s, b, h, q, k: k + (s + 1.0),
        "return -1.0f - at.key;": lambda s, b, h, q, k: s - 1.0 - k,
        "return select(at.key > 3, 0.0f, -2.0f) + 1.0f;": lambda s, b, h, q, k: 1 + numpy.where(k > 3, s, s - 2),
        "": lambda s, b, h, q, k: 0 + s,
    }
    for text, function in forms.items():
        assert parts_of(function) == (text, "")
    for others in (
        lambda s, b, h, q, k: k - s,
        lambda s, b, h, q, k: s * 2 + k,
        lambda s, b, h, q, k: s + s,
        lambda s, b, h, q, k: numpy.where(s > 0, s + 1, s),
        lambda s, b, h, q, k: numpy.where(k > 0, s, 0),
        lambda s, b, h, q, k: numpy.where(k > 0, -math.inf, s * 2),
        lambda s, b, h, q, k: k,
        lambda s, b, h, q, k: s - numpy.where(k > 0, -math.inf, 0) * s,
    ):
        assert trace_mod(others).as_sum is None


def test_a_mask_in_a_mod_is_found() -> None:
    forms: dict[tuple[str, str], Callable[..., Any]] = {
        ("", "return at.query >= at.key;"): lambda s, b, h, q, k: numpy.where(q >= k, s, -math.inf),
        ("", "return !(at.query < at.key);"): lambda s, b, h, q, k: numpy.where(q < k, -math.inf, s),
        ("return 2.0f;", "return at.key > 3;"): lambda s, b, h, q, k: numpy.where(k > 3, 2 + s, -math.inf),
        ("return float(at.key);", "return at.key > 3;"): lambda s, b, h, q, k: k + (numpy.where(k > 3, 0.0, -math.inf) + s),
        ("return float(at.key);", "return at.key > 3 && at.head < 2;"): lambda s, b, h, q, k: numpy.where(k > 3, s, -math.inf) + numpy.where(h < 2, k, -math.inf),
        ("return select(at.head > 0, 1.0f, 0.0f);", "return select(at.head > 0, true, at.key < 9);"): lambda s, b, h, q, k: numpy.where(
            h > 0, s + 1, numpy.where(k < 9, s, -math.inf)
        ),
    }
    for parts, function in forms.items():
        assert parts_of(function) == parts


def test_a_softcap_is_found() -> None:
    caps: list[Callable[..., Any]] = [
        lambda s, b, h, q, k: 30 * numpy.tanh(s / 30),
        lambda s, b, h, q, k: numpy.tanh(s * (1 / 30)) * 30.0,
        lambda s, b, h, q, k: numpy.tanh(s / -30.0) * -30.0,
    ]
    assert [trace_mod(cap).softcap for cap in caps] == [30.0, 30.0, 30.0]
    assert trace_mod(lambda s, b, h, q, k: 4 * numpy.tanh(0.25 * s)).softcap == 4.0
    for others in (
        lambda s, b, h, q, k: 30 * numpy.tanh(s / 20),
        lambda s, b, h, q, k: 30 * numpy.tanh(30 / s),
        lambda s, b, h, q, k: 30 * numpy.tanh(s / 30) + k,
        lambda s, b, h, q, k: k * numpy.tanh(s / k),
        lambda s, b, h, q, k: numpy.tanh(s) * 0,
    ):
        assert trace_mod(others).softcap is None


def test_what_a_text_depends_on() -> None:
    traced = trace_mask(lambda b, h, q, k: (b * 0 + q > k) & (k < 3))
    assert (traced.uses_batch, traced.uses_head, traced.depends_on_score) == (True, False, False)
    traced = trace_mod(lambda s, b, h, q, k: s * h)
    assert (traced.uses_batch, traced.uses_head, traced.depends_on_score) == (False, True, True)
    assert traced.file == __file__
    assert traced.line == test_what_a_text_depends_on.__code__.co_firstlineno + 3


def test_one_tensor_is_one_capture_in_all_functions_of_a_call() -> None:
    captures = Captures()
    mod = trace_mod(lambda s, b, h, q, k: s + Table(SLOPES)[h] + Table(RELATIVE)[0][k] + Table(RELATIVE[0])[q], captures)
    mask = trace_mask(lambda b, h, q, k: (Table(RELATIVE)[h, k] > 0) & (Table(SLOPES)[k] > 0), captures)
    assert [(c.name, c.dims, c.dtype) for c in captures] == [("c0", 1, "float32"), ("c1", 1, "float32"), ("c2", 2, "float32")]
    assert [c.name for c in mod.captures] == ["c0", "c1"]
    assert [c.name for c in mask.captures] == ["c2", "c0"]
    assert mod.as_sum is not None
    assert mod.as_sum.bias is not None
    assert mod.as_sum.bias.captures == mod.captures
    assert mod.captures[0].tensor is SLOPES
    assert trace_mask(lambda b, h, q, k: (Table(SLOPES)[h] * 0 > 1) | True).captures == ()


def test_indices_wrap_only_where_they_may_be_negative() -> None:
    table = Table(RELATIVE)
    assert "select" not in trace_bias(lambda b, h, q, k: table[h, k + 2 * q] + table[1, abs(q - k)] + table[h % 4, (q - k) % 33]).text
    assert "select" not in trace_bias(lambda b, h, q, k: table[h, numpy.clip(q - k, -16, 16) + 16] + table[0, k // 2]).text
    assert "select(t0 < 0, t0 + 33, t0)" in trace_bias(lambda b, h, q, k: table[h, q - k]).text
    assert trace_bias(lambda b, h, q, k: table[h, -1]).text == "return c0(at.head);"


#: Functions that are refused, by what the message says.
REFUSED: dict[str, Callable[..., Any]] = {
    "condition": lambda s, b, h, q, k: s if q > k else -s,
    "(a <= b) & (b < c)": lambda s, b, h, q, k: 0 <= q - k < 5,
    "operand of int()": lambda s, b, h, q, k: s * int(h),
    "operand of float()": lambda s, b, h, q, k: math.tanh(s),
    "fa2.Table": lambda s, b, h, q, k: SLOPES[h] + s,
    "tensors of lists": lambda s, b, h, q, k: [1, 2][h] + s,
    "fixed counts": lambda s, b, h, q, k: sum(s for _ in range(h)),
    "operand of a loop": lambda s, b, h, q, k: sum(s),
    "must be of at most 1": lambda s, b, h, q, k: s + Table(SLOPES)[h, k],
    "shape = (33,)": lambda s, b, h, q, k: s + Table(RELATIVE)[h],
    "shape = (4, 33)": lambda s, b, h, q, k: RELATIVE * s,
    "at most 4 dimensions": lambda s, b, h, q, k: s + Table(numpy.zeros((2, 1, 1, 1, 1), "f4"))[b, h, h, h, h],
    "index = float": lambda s, b, h, q, k: s + Table(SLOPES)[h / 2],
    "index = NoneType": lambda s, b, h, q, k: s + Table(RELATIVE)[None, h],
    "float64": lambda s, b, h, q, k: s + Table(SLOPES.astype("float64"))[h],
    "function = softmax": lambda s, b, h, q, k: s.softmax(0),
    "random": lambda s, b, h, q, k: s.bernoulli(),
    "function = add.reduce": lambda s, b, h, q, k: numpy.add.reduce(s),
    "in place": lambda s, b, h, q, k: s.mul_(2),
    "operands of -": lambda s, b, h, q, k: s * ((q > k) - (k > 3)),
    "operand of - = bool": lambda s, b, h, q, k: s * -(q > k),
    "operand of ~": lambda s, b, h, q, k: ~s,
    "operand of &": lambda s, b, h, q, k: s & 1,
    "divisor": lambda s, b, h, q, k: s + q % 0,
    "exponent = -1": lambda s, b, h, q, k: s + q**-1,
    "power": lambda s, b, h, q, k: s + 3**q,
    "cast = of a score": lambda s, b, h, q, k: s.int(),
    "detach": lambda s, b, h, q, k: s.detach(),
    "item": lambda s, b, h, q, k: s.item(),
    "max = over": lambda s, b, h, q, k: s.max(),
    "operand = str": lambda s, b, h, q, k: s + "1",
    "operand = complex": lambda s, b, h, q, k: s * 1j,
    "result of score_mod = None": lambda s, b, h, q, k: None,
    "result of score_mod = tuple": lambda s, b, h, q, k: (s, q),
    "raises TypeError": lambda s, b, h, q, k: len(3) + s,  # type: ignore[arg-type]
    "arguments of clamp = wrong: takes from 1 to 3": lambda s, b, h, q, k: s.clamp(1, 2, 3),
    "decimals": lambda s, b, h, q, k: s.round(decimals=2),
    "indexed value": lambda s, b, h, q, k: s[0],
    "must take (score, batch, head, query, key)": lambda b, h, q, k: q,
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_name_the_line_and_what_to_do(text: str) -> None:
    function = REFUSED[text]
    with pytest.raises(fa2.InvalidRequest) as caught:
        trace_mod(function)
    message = str(caught.value)
    assert f"{__file__}:{function.__code__.co_firstlineno}: " in message
    assert text in message or text == "fixed counts"
    assert ", must " in message


def test_lines_within_a_function_are_named() -> None:
    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        near = q - k < 5
        near += 1
        return near

    with pytest.raises(fa2.InvalidRequest, match=f"{__file__}:{mask.__code__.co_firstlineno + 2}: .*write x = x \\+ y"):
        trace_mask(mask)


def test_a_call_reads_at_most_eight_tensors() -> None:
    tables = [Table(SLOPES.copy()) for _ in range(9)]
    assert len(trace_bias(lambda b, h, q, k: sum(table[h] for table in tables[:8])).captures) == 8
    with pytest.raises(fa2.InvalidRequest, match="captured tensors = 9, must be at most 8"):
        trace_bias(lambda b, h, q, k: sum(table[h] for table in tables))


def test_errors_of_the_function_itself_pass() -> None:
    with pytest.raises(ZeroDivisionError):
        trace_bias(lambda b, h, q, k: q * (1 / 0))
    assert not hasattr(Table(SLOPES), "no such name")
    assert trace_bias(lambda b, h, q, k: q * (1 if hasattr(q, "no_such_name") else 2)).text == "return float(at.query * 2);"


def test_a_table_is_of_an_array() -> None:
    with pytest.raises(fa2.InvalidType, match="array = list, must be"):
        Table([1, 2])
    assert Table(Table(SLOPES)).array is SLOPES
    assert Table(RELATIVE)[1].shape == (33,)
    assert Table(RELATIVE)[1, 2] == 35


def test_neither_torch_nor_numpy_is_imported() -> None:
    use = "import fa2._score_trace as s; assert s.trace_mask(lambda b, h, q, k: q >= k)"
    program = f"import sys; {use}; assert not {{'torch', 'numpy'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
