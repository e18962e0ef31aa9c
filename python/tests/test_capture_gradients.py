"""Tests gradients of tensors that functions of scores capture, against PyTorch's autograd in float64."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import score_reference  # noqa: E402
from fa2._call import BLOCK_MAP, Options  # noqa: E402
from fa2._scores import as_tensors, with_texts  # noqa: E402

BATCH, HEADS, QUERIES, KEYS = 2, 4, 24, 40


def qkv(grad: bool = True) -> Any:
    torch.manual_seed(5)
    shapes = ((BATCH, n, heads, 16) for n, heads in ((QUERIES, HEADS), (KEYS, 2), (KEYS, 2)))
    return [torch.randn(shape).half().requires_grad_(grad) for shape in shapes]


def parameter(*shape: int, dtype: Any = torch.float32, scale: float = 0.5) -> Any:
    torch.manual_seed(len(shape))
    return (torch.randn(shape) * scale + 0.5).to(dtype).requires_grad_()


def dense(function: str, of: Any, learned: Any, tensors: Any) -> Any:
    """Returns attention in float64 by whole matrices of scores. of: makes the function from its captures."""
    q, k, v = (x.double().transpose(1, 2) for x in tensors)
    k, v = (x.repeat_interleave(HEADS // 2, 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * 16**-0.5
    at = torch.meshgrid(*(torch.arange(n) for n in scores.shape), indexing="ij")
    changed = of(*learned)
    scores = changed(scores, *at) if function == "score_mod" else scores + changed(*at)
    return (scores.softmax(-1) @ v).transpose(1, 2)


#: By names: the argument, what makes the function of what it captures, and what that is.
CASES: dict[str, Any] = {
    "slopes": ("bias", lambda slopes: lambda b, h, q, k: -slopes[h] * torch.abs(q - k) * 0.1, [parameter(HEADS)]),
    "table": ("bias", lambda table: lambda b, h, q, k: table[h, q - k + 40], [parameter(HEADS, 64, dtype=torch.bfloat16)]),
    "bias": ("bias", lambda bias: lambda b, h, q, k: bias[b, h, q, k], [parameter(BATCH, HEADS, QUERIES, KEYS, dtype=torch.float16)]),
    "cap": ("score_mod", lambda cap: lambda s, b, h, q, k: cap * torch.tanh(s / cap), [parameter()]),
    "two": ("score_mod", lambda gain, add: lambda s, b, h, q, k: s * gain[h] + add[k] * gain[q % HEADS], [parameter(HEADS), parameter(KEYS)]),
    "expanded": ("bias", lambda row: lambda b, h, q, k: row.expand(HEADS, KEYS)[h, k], [parameter(1, KEYS)]),
}


def check(found: Any, exact: Any) -> None:
    for a, b in zip(found, exact):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert score_reference.error(a, b) < 8e-3


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_autograd(name: str) -> None:
    argument, of, learned = CASES[name]
    tensors = qkv()
    out = fa2.attention(*tensors, **{argument: of(*learned)})
    exact = dense(argument, of, [x.double() for x in learned], tensors)
    upstream = torch.randn_like(exact)
    check(torch.autograd.grad(out, (*learned, *tensors), upstream.half()), torch.autograd.grad(exact, (*learned, *tensors), upstream))


def test_only_captures_that_require_gradients_get_them() -> None:
    gain, add = parameter(HEADS), parameter(KEYS).detach()
    q, k, v = qkv(grad=False)
    out = fa2.attention(q, k, v, score_mod=lambda s, b, h, q, k: s * gain[h] + add[k])
    (found,) = torch.autograd.grad(out.sum(), (gain,))
    assert found.shape == gain.shape and add.grad is None
    with torch.no_grad():
        assert not fa2.attention(q, k, v, score_mod=lambda s, b, h, q, k: s * gain[h] + add[k]).requires_grad


def test_flex_attention() -> None:
    slopes = parameter(HEADS)
    tensors = qkv()
    swapped = [x.transpose(1, 2) for x in tensors]
    out = fa2.flex_attention(*swapped, score_mod=lambda s, b, h, q, k: s - slopes[h] * torch.abs(q - k), enable_gqa=True)
    exact = dense("score_mod", lambda slopes: lambda s, b, h, q, k: s - slopes[h] * torch.abs(q - k), [slopes.double()], tensors)
    check(torch.autograd.grad(out.float().square().sum(), (slopes,)), torch.autograd.grad(exact.square().sum(), (slopes,)))


def test_texts_under_compile() -> None:
    table = parameter(HEADS, KEYS, dtype=torch.bfloat16)
    gain = parameter(KEYS).detach()
    text = fa2.ScoreText("return table(at.head, at.key) * gain(at.key) * half();", {"table": table, "gain": gain, "half": 0.5})

    def step(q: Any, k: Any, v: Any) -> Any:
        return 2 * fa2.attention(q, k, v, bias=text)

    tensors = qkv()
    found, expected = (
        torch.autograd.grad(run(*tensors).sum(), (table, *tensors))
        for run in (torch.compile(step, backend="aot_eager", fullgraph=True), step)
    )
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype and score_reference.error(a, b) < 1e-3


def test_operators_satisfy_opcheck() -> None:
    table, gain = parameter(HEADS, KEYS), parameter(KEYS).detach()
    text = fa2.ScoreText("return table(at.head, at.key) * gain(at.key) * half();", {"table": table, "gain": gain, "half": 0.5})
    q, k, v = qkv()
    given = dict.fromkeys(Options._fields)
    numbers: dict[str, Any] = {"mask": 0, "window_left": -1, "window_right": -1, "attention_chunk": 0, "missing_pages": False, "batch_invariant": False}
    more: dict[str, Any] = {"lse_base": "natural", "sm_margin": 0, "softcap": 0.0, "dropout_p": 0.0, "dropout_seed": 0, "dropout_offset": 0}
    options = with_texts(tuple(Options(**{**given, **numbers, **more})), q, None, None, text)
    options = options._replace(captures=as_tensors(options.captures or ()))
    torch.library.opcheck(torch.ops.fa2.forward, (q, k, v, *options[:BLOCK_MAP], False))
    with torch.no_grad():
        out, lse = torch.ops.fa2.forward(q, k, v, *options[:BLOCK_MAP], False)
        inputs = (torch.ones_like(out), None, q.detach(), k.detach(), v.detach(), out, lse, True, False, True, False)
        options = options._replace(captures=[x.detach() for x in options.captures or ()])
    torch.library.opcheck(torch.ops.fa2.backward, (*inputs, [True, False, False], *options[:BLOCK_MAP], False))


def test_deterministic_gradients_do_not_depend_on_order() -> None:
    slopes = parameter(HEADS)
    tensors = [x.detach().requires_grad_() for x in qkv(grad=False)]
    weight = torch.randn_like(tensors[0])

    def of(order: list[int], **options: bool) -> Any:
        q, k, v = (x[order] for x in tensors)
        out = fa2.attention(q, k, v, bias=lambda b, h, q, k: slopes[h] * k * 0.01, **options)
        return torch.autograd.grad(out, (slopes,), weight[order])[0]

    batch = list(range(len(weight)))
    plain = of(batch)
    for options in ({"deterministic": True}, {"batch_invariant": True}):
        found = of(batch, **options)
        assert torch.equal(of(batch[::-1], **options), found)
        assert score_reference.error(found, plain) < 1e-5


def test_no_queries_and_no_keys() -> None:
    slopes = parameter(HEADS)
    for queries, keys in ((0, 5), (5, 0)):
        q, k, v = (torch.randn(1, n, HEADS, 16).half() for n in (queries, keys, keys))
        out = fa2.attention(q, k, v, bias=lambda b, h, q, k: slopes[h] * k)
        (found,) = torch.autograd.grad(out.sum(), (slopes,))
        assert torch.equal(found, torch.zeros(HEADS))


def test_errors() -> None:
    slopes = parameter(HEADS)
    refused = r"c0\.requires_grad = True, with shape \(4,\), must be False of a mask's capture, .* pass its detach\(\)"
    with pytest.raises(fa2.InvalidRequest, match=refused):
        fa2.attention(*qkv(), mask_mod=lambda b, h, q, k: slopes[h] < k)
