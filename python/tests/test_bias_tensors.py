"""Tests tensors in the place of a bias: what is added to scores, and masks of bools."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import score_reference  # noqa: E402

BATCH, HEADS, QUERIES, KEYS = 2, 4, 24, 40
SIZES = (BATCH, HEADS, QUERIES, KEYS)


def qkv(grad: bool = False, heads_kv: int = 2) -> Any:
    torch.manual_seed(5)
    shapes = ((BATCH, n, heads, 16) for n, heads in ((QUERIES, HEADS), (KEYS, heads_kv), (KEYS, heads_kv)))
    return [torch.randn(shape).half().requires_grad_(grad) for shape in shapes]


def numbers(*shape: int, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(len(shape))
    return torch.randn(shape).to(dtype)


def added(tensor: Any) -> Callable[..., Any]:
    """Returns the reference's function of a bias."""
    return lambda b, h, q, k: tensor.double().broadcast_to(SIZES)[b, h, q, k]


def reads(**given: Any) -> dict[str, str]:
    """Returns the texts of a call."""
    texts: dict[str, str] = fa2.explain(*qkv(), **given)["texts"]
    return texts


#: By names: a tensor, and the text that reads it.
TENSORS: dict[str, Any] = {
    "all": (numbers(*SIZES), "(at)"),
    "half": (numbers(*SIZES, dtype=torch.float16), "(at)"),
    "of a head": (numbers(HEADS, QUERIES, KEYS, dtype=torch.bfloat16), "(at)"),
    "of a batch": (numbers(BATCH, 1, QUERIES, KEYS), "(at)"),
    "shared": (numbers(QUERIES, KEYS), "(at)"),
    "expanded": (numbers(1, 1, QUERIES, KEYS).expand(SIZES), "(at)"),
    "padded": (numbers(*SIZES[:3], KEYS + 8)[..., :KEYS], "(at)"),
    "other order": (numbers(QUERIES, HEADS, KEYS).transpose(0, 1), "(at)"),
    "padding of keys": (numbers(BATCH, 1, 1, KEYS), "(at.batch, at.key)"),
    "of a query": (numbers(HEADS, QUERIES, 1), "(at.head, at.query)"),
    "one number": (numbers(1, 1), "()"),
    "odd rows": (numbers(*SIZES[:3], KEYS + 1)[..., :KEYS], "(at.batch, at.head, at.query, at.key)"),
    "odd address": (numbers(QUERIES * KEYS + 1)[1:].view(QUERIES, KEYS), "(at.query, at.key)"),
    "transposed": (numbers(HEADS, KEYS, QUERIES).transpose(1, 2), "(at.head, at.query, at.key)"),
    "one row": (numbers(1, KEYS).expand(QUERIES, KEYS), "(at.query, at.key)"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_is_added_to_scores(name: str) -> None:
    tensor, text = TENSORS[name]
    assert reads(bias=tensor) == {"bias": f"return bias_tensor{text};"}
    learned = tensor.detach().requires_grad_()
    tensors = qkv(grad=True)
    out, lse = fa2.attention(*tensors, bias=learned, return_lse=True)
    expected, expected_lse = score_reference.attention(*tensors, bias=added(learned))
    assert score_reference.error(out, expected) < 2e-3
    wanted = (*tensors, learned)
    found, exact = (score_reference.gradients(*made, wanted) for made in ((out, lse), (expected, expected_lse)))
    for a, b, x in zip(found, exact, wanted):
        assert a.shape == x.shape and a.dtype == x.dtype
        assert score_reference.error(a, b) < 8e-3


def test_gradients_reach_what_a_view_is_of() -> None:
    tensors = qkv(grad=True)
    base = numbers(1, KEYS, QUERIES, dtype=torch.bfloat16).requires_grad_()
    for view in (lambda x: x.transpose(1, 2).expand(HEADS, -1, -1), lambda x: x.transpose(1, 2).contiguous().expand(SIZES)):
        out = fa2.attention(*tensors, bias=view(base))
        expected = score_reference.attention(*tensors, bias=added(view(base)))[0]
        a, b = (torch.autograd.grad(x.double().square().sum(), (base,))[0] for x in (out, expected))
        assert a.dtype == torch.bfloat16 and score_reference.error(a, b) < 8e-3


FULL = numbers(*SIZES)
OF_A_HEAD = numbers(1, HEADS, QUERIES, KEYS)
SHARED = numbers(QUERIES, KEYS)
WHOLE = SHARED.int()


@pytest.mark.parametrize(
    ("function", "tensor"),
    [
        (lambda b, h, q, k: FULL[b, h, q, k], FULL),
        (lambda b, h, q, k: FULL[b][h][q][k], FULL),
        (lambda b, h, q, k: FULL[b, 0, q, k], FULL[:, :1]),
        (lambda b, h, q, k: OF_A_HEAD[0, h, q, k], OF_A_HEAD),
        (lambda b, h, q, k: OF_A_HEAD[0, 0, q, k], OF_A_HEAD[:, :1]),
        (lambda b, h, q, k: SHARED[q, k], SHARED),
    ],
)
def test_functions_that_index_by_the_position(function: Any, tensor: Any) -> None:
    tensors = qkv()
    expected = score_reference.attention(*tensors, bias=added(tensor))[0]
    swapped = [x.transpose(1, 2) for x in tensors]

    def mod(score: Any, *at: Any) -> Any:
        return score + function(*at)

    for given in (dict(bias=function), dict(score_mod=mod), dict(bias=fa2.score_text(bias=function))):
        assert list(reads(**given).values())[0].endswith("_0(at);" if "x" in given else "(at);")
        assert score_reference.error(fa2.attention(*tensors, **given), expected) < 2e-3
    out = fa2.flex_attention(*swapped, score_mod=mod, enable_gqa=True).transpose(1, 2)
    assert score_reference.error(out, expected) < 2e-3


def test_functions_that_also_index_elsewhere() -> None:
    for function in (
        lambda b, h, q, k: SHARED[q, k] + SHARED[k % QUERIES, q],
        lambda b, h, q, k: SHARED[k, q],
        lambda b, h, q, k: SHARED[q, k - 1],
        lambda b, h, q, k: FULL[h, b, q, k],
        lambda b, h, q, k: WHOLE[q, k] * 0.5,
    ):
        assert "(at)" not in reads(bias=function)["bias"]
    assert "(at)" not in reads(mask_mod=lambda b, h, q, k: SHARED[q, k] > 0)["mask_mod"]


def test_beside_other_functions() -> None:
    tensors = qkv(grad=True)
    given: dict[str, Any] = dict(
        score_mod=lambda s, b, h, q, k: 3 * torch.tanh(s / 3) + FULL[b, h, q, k] * 0.5,
        mask_mod=lambda b, h, q, k: (FULL[b, h, q, k] > -1) & (k % 3 != 1),
    )
    for more in (OF_A_HEAD, FULL):
        out, lse = fa2.attention(*tensors, bias=more, return_lse=True, **given)
        expected, expected_lse = score_reference.attention(*tensors, bias=added(more), **given)
        assert score_reference.error(out, expected) < 2e-3
        found, exact = (score_reference.gradients(*made, tensors) for made in ((out, lse), (expected, expected_lse)))
        assert all(score_reference.error(a, b) < 8e-3 for a, b in zip(found, exact))
    # A tensor comes before what a score_mod only adds, and before a cap.
    for mod in (lambda s, b, h, q, k: s + SHARED[q, k], lambda s, b, h, q, k: 2 * torch.tanh(s / 2)):
        out = fa2.attention(*tensors, bias=SHARED, score_mod=mod)
        assert score_reference.error(out, score_reference.attention(*tensors, bias=added(SHARED), score_mod=mod)[0]) < 2e-3
    out = fa2.attention(*tensors, bias=SHARED, causal="top_left", softcap=2.0)
    expected = score_reference.attention(
        *tensors, score_mod=lambda s, b, h, q, k: 2 * torch.tanh(s / 2) + SHARED[q, k], mask_mod=lambda b, h, q, k: k <= q
    )[0]
    assert score_reference.error(out, expected) < 2e-3


def test_a_mask_of_bools() -> None:
    torch.manual_seed(1)
    tensors = qkv(grad=True)
    for shape, indices in ((SIZES, "at.batch, at.head, at.query, at.key"), ((BATCH, 1, 1, KEYS), "at.batch, at.key"), ((QUERIES, KEYS), "at.query, at.key")):
        mask = torch.rand(shape) < 0.6
        assert reads(bias=mask) == {"mask_mod": f"return mask_tensor({indices});"}
        out, lse = fa2.attention(*tensors, bias=mask, return_lse=True)
        shown = mask.broadcast_to(SIZES)
        expected, expected_lse = score_reference.attention(*tensors, mask_mod=lambda b, h, q, k: shown[b, h, q, k])  # noqa: B023
        assert score_reference.error(out, expected) < 2e-3
        q, k, v = (x.transpose(1, 2) for x in tensors)
        sdpa = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True).transpose(1, 2)
        seen = mask.broadcast_to(SIZES).any(-1).transpose(1, 2)[..., None].expand(out.shape)
        assert score_reference.error(out[seen], sdpa[seen]) < 4e-3
        found, exact = (score_reference.gradients(*made, tensors) for made in ((out, lse), (expected, expected_lse)))
        assert all(score_reference.error(a, b) < 8e-3 for a, b in zip(found, exact))


def test_a_mask_of_bools_beside_others() -> None:
    torch.manual_seed(1)
    mask = torch.rand(QUERIES, KEYS) < 0.6
    tensors = qkv()

    def late(b: Any, h: Any, q: Any, k: Any) -> Any:
        return k >= h

    text = fa2.ScoreText("if (at.key < 3) return at.head > 100;\nreturn at.key > 2; // the rest")
    for given, other in ((late, late), (text, lambda b, h, q, k: k >= 3)):
        out = fa2.attention(*tensors, bias=mask, mask_mod=given, score_mod=lambda s, b, h, q, k: torch.where(k < 30, s + SHARED[q, k], -math.inf))
        expected = score_reference.attention(
            *tensors, bias=added(SHARED), mask_mod=lambda b, h, q, k: mask[q, k] & other(b, h, q, k) & (k < 30)  # noqa: B023
        )[0]
        assert score_reference.error(out, expected) < 2e-3


def test_texts_call_tensors_per_score() -> None:
    tensors = qkv(grad=True)
    gain = torch.rand(HEADS).requires_grad_()
    learned = OF_A_HEAD[0].clone().requires_grad_()
    text = fa2.ScoreText("return gain(at.head) * pair(at);", {"pair": learned, "gain": gain})
    out = fa2.attention(*tensors, bias=text)
    expected = score_reference.attention(*tensors, bias=lambda b, h, q, k: gain.double()[h] * added(learned)(b, h, q, k))[0]
    found, exact = (torch.autograd.grad(x.double().square().sum(), (learned, gain)) for x in (out, expected))
    assert all(a.shape == b.shape and score_reference.error(a, b) < 8e-3 for a, b in zip(found, exact))
    with pytest.raises(fa2.InvalidRequest, match=r"captures\.pair\.strides\[3\] = 24, must be 1: keys are contiguous"):
        fa2.attention(*tensors, bias=fa2.ScoreText("return pair(at);", {"pair": TENSORS["transposed"][0]}))
    with pytest.raises(fa2.InvalidRequest, match=r"captures\.pair\.sizes\[2\] = 1, must be seqlen_q = 24"):
        fa2.attention(*tensors, bias=fa2.ScoreText("return pair( at );", {"pair": numbers(1, KEYS)}))


def test_layouts_and_packed_sequences() -> None:
    tensors = qkv()
    out = fa2.attention(*(x.transpose(1, 2) for x in tensors), bias=FULL, layout="bhsd").transpose(1, 2)
    assert score_reference.error(out, score_reference.attention(*tensors, bias=added(FULL))[0]) < 2e-3
    arrays = fa2.attention(*(x.numpy() for x in tensors), bias=FULL)
    assert torch.equal(torch.from_numpy(arrays), out)
    cu = torch.tensor([0, 8, 24], dtype=torch.int32)
    q, k, v = (x[0, :24] for x in tensors)
    pair = numbers(2, HEADS, 16, 16)
    out = fa2.attention(q, k, v, bias=pair, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=16, max_seqlen_k=16)
    for number, (begin, end) in enumerate(((0, 8), (8, 24))):
        part = (x[None, begin:end] for x in (q, k, v))
        expected = score_reference.attention(*part, bias=lambda b, h, q, k: pair.double()[number, h, q, k])[0]  # noqa: B023
        assert score_reference.error(out[begin:end], expected[0]) < 2e-3


def test_block_masks_hold_their_map() -> None:
    swapped = [x.transpose(1, 2) for x in qkv()]
    block_mask = fa2.create_block_mask(lambda b, h, q, k: FULL[b, h, q, k] > -1, None, None, QUERIES, KEYS)
    expected = score_reference.attention(*qkv(), bias=added(FULL), mask_mod=lambda b, h, q, k: FULL[b, h, q, k] > -1)[0]
    for _ in range(2):
        out = fa2.flex_attention(*swapped, score_mod=lambda s, b, h, q, k: s + FULL[b, h, q, k], block_mask=block_mask, enable_gqa=True)
        assert score_reference.error(out.transpose(1, 2), expected) < 2e-3


@pytest.mark.parametrize("name", ["all", "of a head", "odd rows", "padding of keys"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    learned = TENSORS[name][0].detach().requires_grad_()

    def step(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return 2 * fa2.attention(q, k, v, bias=bias)

    tensors = (*qkv(grad=True), learned)
    out = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)(*tensors)
    plain = step(*tensors)
    assert torch.equal(out, plain)
    for a, b in zip(torch.autograd.grad(out.sum(), tensors), torch.autograd.grad(plain.sum(), tensors)):
        assert a.dtype == b.dtype and score_reference.error(a, b) < 1e-3


def test_no_scores() -> None:
    for queries, keys in ((0, 5), (5, 0)):
        q, k, v = (torch.randn(1, n, HEADS, 16).half().requires_grad_() for n in (queries, keys, keys))
        learned = torch.zeros(1, HEADS, queries, keys).requires_grad_()
        for bias in (learned, learned > 0, torch.zeros(1, HEADS, 1, 1)):
            out = fa2.attention(q, k, v, bias=bias)
            assert torch.equal(out, torch.zeros(1, queries, HEADS, 16).half())
            out.sum().backward()


def refused(pattern: str, kind: type[Exception] = fa2.InvalidRequest, **arguments: Any) -> None:
    with pytest.raises(kind, match=pattern):
        fa2.attention(*qkv(), **arguments)


def test_errors() -> None:
    refused(r"bias\.shape = \(24, 41\), must have 2 to 4 dimensions that broadcast to .* = \(2, 4, 24, 40\)", bias=numbers(QUERIES, 41))
    refused(r"bias\.shape = \(40,\), must have 2 to 4 dim", bias=numbers(KEYS))
    refused(r"bias\.shape = \(1, 2, 4, 24, 40\), must have", bias=FULL[None])
    refused(r"bias\.shape = \(3, 1, 24, 40\), must have", bias=numbers(3, 1, QUERIES, KEYS))
    refused(r"bias\.dtype = float64, must be float16, bfloat16, float32, or bool for a mask: cast it, with x\.float\(\)$", fa2.InvalidType, bias=FULL.double())
    refused(r"bias\.dtype = int64, .* or compare it, as in x != 0, for a mask", fa2.InvalidType, bias=SHARED.long())
    refused(r"bias\.device = meta, must be cpu, as q's: move it there", bias=SHARED.to("meta"))
    refused(r"bias = \[1\], must be a function, a ScoreText or a tensor: ", fa2.InvalidType, bias=[1])
    refused(r"bias = torch.sparse_coo, must be dense", bias=SHARED.to_sparse())
    refused("mask_mod = Tensor, must be a function or a ScoreText: .* or the tensor as bias", fa2.InvalidType, mask_mod=SHARED > 0)
    fa2.check_score_text(bias=SHARED, seqlen_q=QUERIES, seqlen_k=KEYS)
    with pytest.raises(fa2.InvalidRequest, match=r"bias\.shape = \(24, 40\), must have"):
        fa2.check_score_text(bias=SHARED, seqlen_q=QUERIES, seqlen_k=KEYS + 1)
