"""Tests score_mod, mask_mod and bias: functions of Python and texts of C++, with what they capture."""

from __future__ import annotations

import functools
import gc
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import score_reference  # noqa: E402
from fa2._call import BLOCK_MAP, Options  # noqa: E402

torch.manual_seed(3)
BATCH, HEADS, QUERIES, KEYS = 2, 4, 24, 40
TABLE = torch.randn(HEADS, 64)
SLOPES = torch.rand(HEADS) + 0.1
DOCUMENTS = torch.arange(KEYS).div(9, rounding_mode="floor").repeat(BATCH, 1)
PREFIXES = torch.tensor([5, 21], dtype=torch.int32)
HIDDEN = torch.where(torch.rand(QUERIES, KEYS) < 0.3, -math.inf, 0.0)
HIDDEN[3] = -math.inf


def qkv(heads_kv: int = HEADS, grad: bool = False, dtype: Any = torch.float16) -> Any:
    torch.manual_seed(5)
    shapes = ((BATCH, n, heads, 16) for n, heads in ((QUERIES, HEADS), (KEYS, heads_kv), (KEYS, heads_kv)))
    return [torch.randn(shape).to(dtype).requires_grad_(grad) for shape in shapes]


#: By names: attention()'s arguments. The functions are the reference's too.
CASES: dict[str, dict[str, Any]] = {
    "table": dict(bias=lambda b, h, q, k: TABLE[h, q - k] * 0.5),
    "slopes": dict(score_mod=lambda s, b, h, q, k: s - SLOPES[h] * torch.abs(q + 16 - k)),
    "softcap": dict(score_mod=lambda s, b, h, q, k: 2 * torch.tanh(s / 2)),
    "gain": dict(score_mod=lambda s, b, h, q, k: s * s * 0.5 + s * SLOPES[h] + TABLE[h, k]),
    "old_mask": dict(score_mod=lambda s, b, h, q, k: torch.where(q + 8 >= k, s + TABLE[h, k], -float("inf"))),
    "documents": dict(mask_mod=lambda b, h, q, k: (DOCUMENTS[b, q] == DOCUMENTS[b, k]) & (k <= q)),
    "prefix": dict(mask_mod=lambda b, h, q, k: (k < PREFIXES[b]) | (k <= q - h)),
    "captured_infinity": dict(bias=lambda b, h, q, k: HIDDEN[q, k]),
    "all": dict(
        bias=lambda b, h, q, k: TABLE[h, k] * 0.25,
        score_mod=lambda s, b, h, q, k: torch.where(h < 2, torch.tanh(s) * 3, s),
        mask_mod=lambda b, h, q, k: (k % 3 != 1) | (b == 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_and_their_gradients(name: str) -> None:
    tensors = qkv(heads_kv=2 if name in ("table", "all") else HEADS, grad=True)
    out, lse = fa2.attention(*tensors, return_lse=True, **CASES[name])
    expected, expected_lse = score_reference.attention(*tensors, **CASES[name])
    assert score_reference.error(out, expected) < 2e-3
    assert torch.equal(torch.isinf(lse), torch.isinf(expected_lse))
    seen = torch.isfinite(lse)
    assert score_reference.error(lse[seen], expected_lse[seen]) < 1e-3
    found = score_reference.gradients(out, lse, tensors)
    for a, b in zip(found, score_reference.gradients(expected, expected_lse, tensors)):
        assert score_reference.error(a, b) < 6e-3


def test_captures_of_every_dtype() -> None:
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64, torch.uint8, torch.bool, torch.int16)
    tables = [torch.randint(0, 3, (KEYS,)).to(dtype) for dtype in dtypes]

    def bias(b: Any, h: Any, q: Any, k: Any) -> Any:
        return sum((place + 1) * 0.1 * table[k] for place, table in enumerate(tables))

    tensors = qkv()
    out = fa2.attention(*tensors, bias=bias)
    assert score_reference.error(out, score_reference.attention(*tensors, bias=bias)[0]) < 2e-3


def test_a_text_captures_tensors_of_any_strides_and_numbers() -> None:
    views = {"plain": TABLE, "transposed": TABLE.t().contiguous().t(), "spread": SLOPES[:, None].expand(-1, 64)}
    for table in views.values():
        for gain in (0.5, 2.0):  # one kernel
            text = fa2.ScoreText("return gain() * table(at.head, at.key) + (shift() - 3);", {"table": table, "gain": gain, "shift": 3})
            out = fa2.attention(*qkv(), bias=text)
            expected = score_reference.attention(*qkv(), bias=lambda b, h, q, k: gain * table[h, k])[0]  # noqa: B023
            assert score_reference.error(out, expected) < 2e-3


def test_texts_and_functions_combine() -> None:
    text = fa2.ScoreText("return score * gain();", {"gain": 0.5})
    mask = CASES["documents"]["mask_mod"]
    out = fa2.attention(*qkv(), score_mod=text, mask_mod=mask)
    assert score_reference.error(out, score_reference.attention(*qkv(), score_mod=lambda s, *_: s * 0.5, mask_mod=mask)[0]) < 2e-3


def options_of(**given: Any) -> Any:
    from fa2._attention import _as_options
    from fa2._scores import with_texts

    arguments = {"score_mod": None, "mask_mod": None, "bias": None}
    others = {name: value for name, value in given.items() if name not in arguments}
    arguments.update({name: value for name, value in given.items() if name in arguments})
    return with_texts(_as_options(others), torch.zeros(1), *arguments.values())


def test_what_functions_become() -> None:
    def texts(**given: Any) -> dict[str, str]:
        from fa2._score_numbers import texts_of

        return texts_of(options_of(**given).score_text)

    cap = CASES["softcap"]["score_mod"]
    assert options_of(score_mod=cap)[:2] == options_of()[:2]
    assert options_of(score_mod=cap).softcap == 2
    assert options_of(score_mod=cap).score_text is None
    assert options_of(score_mod=lambda s, b, h, q, k: s).score_text is None
    slopes = torch.ones(HEADS)
    for others in (dict(softcap=3.0), dict(alibi_slopes=slopes), dict(bias=lambda b, h, q, k: k)):
        assert "score_mod" in texts(score_mod=cap, **others)
    assert list(texts(score_mod=CASES["slopes"]["score_mod"])) == ["bias"]
    assert list(texts(score_mod=CASES["slopes"]["score_mod"], bias=lambda b, h, q, k: k)) == ["bias", "score_mod"]
    assert list(texts(score_mod=CASES["old_mask"]["score_mod"])) == ["bias", "mask_mod"]
    assert list(texts(score_mod=CASES["old_mask"]["score_mod"], mask_mod=lambda b, h, q, k: k > 0)) == ["score_mod", "mask_mod"]


def test_functions_as_texts() -> None:
    case = CASES["all"]
    texts = {name: fa2.score_text(**{name: function}) for name, function in case.items()}
    out = fa2.attention(*qkv(), **texts)  # captures of three texts have different names
    assert score_reference.error(out, score_reference.attention(*qkv(), **case)[0]) < 2e-3
    with pytest.raises(fa2.InvalidRequest, match=r"score_text\(\) = of bias, mask_mod, must|of mask_mod, bias, must be of one function"):
        fa2.score_text(bias=case["bias"], mask_mod=case["mask_mod"])
    with pytest.raises(fa2.InvalidRequest, match="of nothing, must be of one function"):
        fa2.score_text()


OFFSET = 1.0


def test_texts_follow_what_functions_see() -> None:
    from fa2 import _score_memo

    def text(bias: Any) -> tuple[str, Any]:
        from fa2._score_numbers import texts_of

        options = options_of(bias=bias)
        return texts_of(options.score_text)["bias"], options.captures

    def with_global(b: Any, h: Any, q: Any, k: Any) -> Any:
        return k * OFFSET

    def closure(table: Any, gain: float) -> Callable[..., Any]:
        return lambda b, h, q, k: table[k] * gain

    def with_default(b: Any, h: Any, q: Any, k: Any, table: Any = TABLE) -> Any:
        return table[h, k]

    first = text(with_global)
    known = len(_score_memo._texts)
    assert text(with_global) == first
    assert len(_score_memo._texts) == known
    globals()["OFFSET"] = 2.0
    assert text(with_global)[0] == "return at.key * 2.0f;"
    a, b = torch.ones(9), torch.ones(9)
    assert text(closure(a, 2.0))[1][0] is a
    known = len(_score_memo._texts)
    assert text(closure(b, 2.0))[1][0] is b  # another tensor, the same text
    assert len(_score_memo._texts) == known
    assert text(closure(b, 3.0))[0] == "return c0(at.key) * 3.0f;"
    assert text(closure(torch.ones(9, dtype=torch.int32), 3.0))[1][0].dtype == torch.int32
    assert text(with_default)[1][0] is TABLE
    with_default.__defaults__ = (SLOPES[:, None],)
    assert text(with_default)[1][0].shape == (HEADS, 1)
    assert text(functools.partial(with_default, table=TABLE))[1][0] is TABLE
    gains = [1.0]
    for gain in (2.0, 3.0):  # a list is no constant
        gains[0] = gain
        assert text(lambda b, h, q, k: k * gains[0])[0] == f"return at.key * {gain}f;"
    values = torch.tensor([4.0])
    for value in (4.0, 5.0):  # nor are elements of tensors
        values[0] = value
        assert text(lambda b, h, q, k: k * values[0].item())[0] == f"return at.key * {value}f;"
        assert text(lambda b, h, q, k: (values * 2)[k])[1][0][0] == value * 2


def test_two_captures_that_become_one_tensor_are_two_again() -> None:
    def closure(first: Any, second: Any) -> Callable[..., Any]:
        return lambda b, h, q, k: first[k] + 2 * second[k]

    a, b = torch.ones(9), torch.zeros(9)
    for pair in ((a, a), (a, b), (b, b), (b, a)):
        captures = options_of(bias=closure(*pair)).captures
        assert [id(x) for x in captures] == list(dict.fromkeys(map(id, pair)))


def test_packed_sequences_count_from_zero() -> None:
    cu = torch.tensor([0, 7, 24], dtype=torch.int32)
    q, k, v = (x[0, :24] for x in qkv())

    def bias(b: Any, h: Any, q: Any, k: Any) -> Any:
        return TABLE[h, k] * (b + 1) + q * 0.0

    out = fa2.attention(q, k, v, bias=bias, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=17, max_seqlen_k=17)
    for number, (begin, end) in enumerate(((0, 7), (7, 24))):
        part = (x[None, begin:end] for x in (q, k, v))
        expected = score_reference.attention(*part, bias=lambda b, h, q, k: TABLE[h, k] * (number + 1))[0]  # noqa: B023
        assert score_reference.error(out[begin:end], expected[0]) < 2e-3


def test_layout_causal_and_max_logits_go_with_functions() -> None:
    bias = CASES["table"]["bias"]
    swapped = [x.transpose(1, 2) for x in qkv()]
    out = fa2.attention(*swapped, bias=bias, causal="top_left", layout="bhsd").transpose(1, 2)
    expected = score_reference.attention(*qkv(), bias=bias, mask_mod=lambda b, h, q, k: k <= q)[0]
    assert score_reference.error(out, expected) < 2e-3
    plain, logits = fa2.attention(*qkv(), bias=lambda b, h, q, k: k * 100.0, return_max_logits=True)
    assert (logits > 3800).all()
    assert plain.shape == out.shape


def test_explain_names_the_texts() -> None:
    plain, found = fa2.explain(*qkv()), fa2.explain(*qkv(), **CASES["all"])
    assert set(found["texts"]) == {"bias", "score_mod", "mask_mod"}
    assert "texts" not in plain
    assert "score_mod  return" in str(found)
    assert plain["kernels"][0]["key"] != found["kernels"][0]["key"]
    backward = fa2.explain(*qkv(), bias=CASES["table"]["bias"], backward=True)
    assert "bias" in backward["texts"]
    with pytest.raises(fa2.Unavailable):
        fa2.tune(*qkv(), **CASES["all"])


# ---- operators and torch.compile ----


def a_text() -> Any:
    return fa2.ScoreText("return gain() * table(at.head, at.key);", {"table": TABLE, "gain": 0.5})


def test_operators_and_modes() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    tensors = qkv(grad=True)
    plain = fa2.attention(*tensors, bias=a_text())
    with Mode():
        out = fa2.attention(*tensors, bias=a_text())
        found = torch.autograd.grad(out.sum(), tensors)
    assert torch.equal(out, plain)
    assert all(map(torch.equal, found, torch.autograd.grad(plain.sum(), tensors)))
    from fa2._scores import as_tensors

    options = options_of(bias=a_text())
    utils = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.fa2.forward, (*tensors, *options._replace(captures=as_tensors(options.captures))[:BLOCK_MAP], False), test_utils=utils)
    with pytest.raises(fa2.InvalidType, match=r"captures.table.dtype = torch.int32, with 1 dimensions"):
        torch.ops.fa2.forward(*qkv(), *options._replace(captures=[PREFIXES, torch.tensor(0.5)])[:BLOCK_MAP], False)


@pytest.mark.parametrize("is_text", [True, False], ids=["text", "function"])
def test_compiled(is_text: bool) -> None:
    torch._dynamo.reset()
    argument = a_text() if is_text else lambda b, h, q, k: 0.5 * TABLE[h, k]

    def step(q: Any, k: Any, v: Any) -> Any:
        return 2 * fa2.attention(q, k, v, bias=argument)

    tensors = qkv(grad=True)
    out = torch.compile(step, backend="aot_eager", fullgraph=is_text)(*tensors)  # a function is a graph break
    plain = step(*tensors)
    assert torch.equal(out, plain)
    assert all(map(torch.equal, torch.autograd.grad(out.sum(), tensors), torch.autograd.grad(plain.sum(), tensors)))


# ---- errors ----


def refused(pattern: str, kind: type[Exception] = fa2.InvalidRequest, **arguments: Any) -> None:
    with pytest.raises(kind, match=pattern):
        fa2.attention(*qkv(grad=True), **arguments)


def test_errors() -> None:
    double = torch.ones(KEYS, dtype=torch.float64)
    refused(r"\.dtype = float64, must be", fa2.InvalidType, bias=lambda b, h, q, k: double[k])
    refused(r"captures\.x\.dtype = float64, must be float16", fa2.InvalidType, bias=fa2.ScoreText("return x(at.key);", {"x": double}))
    refused(r"captures\.x = 'a', must be", fa2.InvalidType, bias=fa2.ScoreText("return x();", {"x": "a"}))
    refused(r"captures\.x = 2\d+, must be at most 2\^53", bias=fa2.ScoreText("return x();", {"x": 2 * 10**17}))
    refused(r"captures\.x\.shape = \(1, 1, 1, 1, 1\), must have at most 4 dim", bias=fa2.ScoreText("return x();", {"x": torch.zeros(1, 1, 1, 1, 1)}))
    refused(r"captures\.x\.device = neither", bias=fa2.ScoreText("return x(at.key);", {"x": torch.zeros(9, device="meta")}))
    refused(r"captures\.x\.sizes\[0\] = 0, must be in 1", bias=fa2.ScoreText("return x(at.key);", {"x": torch.zeros(0)}))
    refused("mask_mod = Tensor, must be a function or a ScoreText: pass a function that indexes the tensor", fa2.InvalidType, mask_mod=TABLE)
    refused("score_mod = 'return score;', must be a function", fa2.InvalidType, score_mod="return score;")
    refused(r"must take \(batch, head, query, key\)", fa2.InvalidType, mask_mod=lambda s, b, h, q, k: k > 0)
    refused(r"captures.x = two values, must be one", bias=fa2.ScoreText("return x();", {"x": 1}), mask_mod=fa2.ScoreText("return x();", {"x": 2}))
    refused("must have no preprocessor directive", bias=fa2.ScoreText("#if 1"))
    refused(r"captures\[0\]\.name = score", bias=fa2.ScoreText("return 1.0f;", {"score": 1.0}))
    refused(r"a file\.cu:17", fa2.CompileError, bias=fa2.ScoreText("\nreturn nonsense;", file="a file.cu", line=16))
    with pytest.raises(fa2.InvalidRequest, match="captured tensors = 9, must be at most 8"):
        tables = [torch.ones(KEYS) for _ in range(9)]
        fa2.attention(*qkv(), bias=lambda b, h, q, k: sum(table[k] for table in tables))


def test_a_capture_must_not_change_before_the_backward() -> None:
    table = TABLE.clone()
    tensors = qkv(grad=True)
    out = fa2.attention(*tensors, bias=lambda b, h, q, k: table[h, q - k] * 0.5)
    table.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_call_keeps_no_references() -> None:
    table, (q, k, v) = TABLE.clone(), qkv()
    text = fa2.ScoreText("return gain() * table(at.head, at.key);", {"table": table, "gain": 1.5})
    meta = fa2.ScoreText("return x(at.key);", {"x": torch.zeros(9, device="meta")})
    name = "capture" + "_of_a_name"
    specs = ((name, 2, 0),)

    def call() -> None:
        fa2.attention(q, k, v, bias=text)
        fa2.explain(q, k, v, bias=text)
        options = options_of(bias=text)
        fa2._core.check(q, k, v, None, options)  # type: ignore[attr-defined]
        with pytest.raises(fa2.InvalidRequest):
            fa2.attention(q, k, v, bias=meta)
        with pytest.raises(TypeError):
            fa2._core.make_score_text(("a", "b"), None, None, None, (0, 0), specs)  # type: ignore[attr-defined]
        fa2._core.make_score_text(("return 1.0f;", "b", 1), None, None, None, (0, 0), specs)  # type: ignore[attr-defined]
        fa2.check_score_text(bias=text, seqlen_q=4, seqlen_k=4)

    def counts() -> list[int]:
        gc.collect()  # the frames of errors
        return [sys.getrefcount(x) for x in (table, q, text, text.text, name, specs)]

    call()
    before = counts()
    for _ in range(5):
        call()
    assert counts() == before
    assert Options._fields[-3:] == ("score_text", "captures", "block_map")
