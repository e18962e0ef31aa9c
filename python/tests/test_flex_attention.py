"""Tests fa2.flex_attention() and its masks, on the interpreter, beside PyTorch's where that has them."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import score_reference  # noqa: E402

BATCH, HEADS, QUERIES, KEYS = 2, 4, 40, 48
DOCUMENTS = torch.arange(KEYS).div(11, rounding_mode="floor").repeat(BATCH, 1)


def qkv(heads_kv: int = HEADS, batch_kv: int = BATCH, head_dim: int = 16, head_dim_v: int = 16, grad: bool = False) -> Any:
    torch.manual_seed(1)
    shapes = ((BATCH, HEADS, QUERIES, head_dim), (batch_kv, heads_kv, KEYS, head_dim), (batch_kv, heads_kv, KEYS, head_dim_v))
    return [torch.randn(shape).half().requires_grad_(grad) for shape in shapes]


def reference(q: Any, k: Any, v: Any, **functions: Any) -> Any:
    """Returns (out, lse) in FlexAttention's layout."""
    k, v = (x.expand(q.shape[0], -1, -1, -1) for x in (k, v))
    out, lse = score_reference.attention(*(x.transpose(1, 2) for x in (q, k, v)), **functions)
    return out.transpose(1, 2), lse.masked_fill(lse == math.inf, -math.inf)


def mask(mask_mod: Any, batch: int | None = None, heads: int | None = None, **others: Any) -> Any:
    return fa2.create_block_mask(mask_mod, batch, heads, QUERIES, KEYS, device="cpu", **others)


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q + 8 >= k


def documents(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (DOCUMENTS[b, q] == DOCUMENTS[b, k]) & (q != 7)


def test_score_mod_mask_and_gradients() -> None:
    def score_mod(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score * (h + 1) * 0.5 + (q - k) * 0.1

    tensors = qkv(heads_kv=2, head_dim=20, head_dim_v=12, grad=True)
    out, aux = fa2.flex_attention(
        *tensors, score_mod, mask(documents), 0.3, enable_gqa=True, return_aux=fa2.AuxRequest(lse=True), kernel_options={"fwd_BLOCK_M": 64}
    )
    expected, lse = reference(*tensors, score_mod=score_mod, mask_mod=documents, scale=0.3)
    assert score_reference.error(out, expected) < 2e-3
    assert (aux.lse[:, :, 7] == -math.inf).all()
    assert aux.max_scores is None
    seen = torch.isfinite(lse)
    assert score_reference.error(aux.lse[seen], lse[seen]) < 1e-3
    found = score_reference.gradients(out, aux.lse, tensors)
    for a, b in zip(found, score_reference.gradients(expected, lse, tensors)):
        assert score_reference.error(a, b) < 6e-3


def test_one_batch_of_keys_serves_all_queries() -> None:
    tensors = qkv(batch_kv=1, grad=True)
    out, lse = fa2.flex_attention(*tensors, block_mask=mask(causal, BATCH), return_lse=True)
    expected, expected_lse = reference(*tensors, mask_mod=causal)
    assert score_reference.error(out, expected) < 2e-3
    found = score_reference.gradients(out, lse, tensors)
    for a, b in zip(found, score_reference.gradients(expected, expected_lse, tensors)):
        assert score_reference.error(a, b) < 6e-3


def test_masks_combine() -> None:
    sees_some = fa2.or_masks(fa2.and_masks(causal, documents), lambda b, h, q, k: k == h)
    out = fa2.flex_attention(*qkv(), block_mask=mask(sees_some, BATCH, HEADS))

    def wanted(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (causal(b, h, q, k) & documents(b, h, q, k)) | (k == h)

    assert score_reference.error(out, reference(*qkv(), mask_mod=wanted)[0]) < 2e-3
    plain = fa2.flex_attention(*qkv())
    assert torch.equal(plain, fa2.flex_attention(*qkv(), block_mask=mask(fa2.noop_mask)))
    assert torch.equal(plain, fa2.flex_attention(*qkv(), block_mask=mask(fa2.and_masks())))
    text = fa2.ScoreText("return at.query + 8 >= at.key;")
    assert torch.equal(fa2.flex_attention(*qkv(), block_mask=mask(text)), fa2.flex_attention(*qkv(), block_mask=mask(causal)))


def test_a_block_mask_describes_itself() -> None:
    made = mask(causal, BLOCK_SIZE=64)
    assert made.shape == (1, 1, QUERIES, KEYS)
    assert made.BLOCK_SIZE == (64, 64)
    assert made.to("cuda").device == "cuda"
    assert made.to("cuda").mask_mod is causal
    with pytest.raises(fa2.InvalidRequest, match=r"must be whole: create a mask with an offset"):
        made[:, :, 0]


@pytest.mark.parametrize("are_texts", [True, False], ids=["texts", "functions"])
def test_compiled(are_texts: bool) -> None:
    torch._dynamo.reset()
    table = torch.randn(HEADS, KEYS)

    def score_mod(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return torch.tanh(s) + table[h, k]

    functions = (fa2.score_text(score_mod=score_mod), fa2.score_text(mask_mod=documents)) if are_texts else (score_mod, documents)
    block_mask = mask(functions[1])

    def step(q: Any, k: Any, v: Any) -> Any:
        return fa2.flex_attention(q, k, v, functions[0], block_mask, return_lse=True)[0] * 2

    out = torch.compile(step, backend="aot_eager", fullgraph=are_texts)(*qkv())  # functions are a graph break
    assert score_reference.error(out, 2 * reference(*qkv(), score_mod=score_mod, mask_mod=documents)[0]) < 2e-3


# ---- PyTorch's masks ----


def blocks_of(counts: Any, indices: Any) -> Any:
    """Returns the bool mask of lists of blocks of 16 x 16."""
    shown = torch.zeros(*indices.shape[:-1], indices.shape[-1], dtype=torch.bool)
    for place in torch.cartesian_prod(*map(torch.arange, counts.shape)).tolist():
        shown[tuple(place)][indices[tuple(place)][: counts[tuple(place)]].long()] = True
    return shown.repeat_interleave(16, -2).repeat_interleave(16, -1)[..., :QUERIES, :KEYS]


def test_blocks_of_pytorch_are_honoured() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    counts = torch.tensor([[[1, 2, 0]], [[3, 0, 1]]], dtype=torch.int32)
    indices = torch.tensor([[[[1, 0, 2], [2, 0, 1], [0, 1, 2]]], [[[1, 0, 2], [0, 1, 2], [2, 1, 0]]]], dtype=torch.int32)
    full_counts = torch.tensor([[[1, 0, 1]], [[0, 1, 1]]], dtype=torch.int32)
    full_indices = torch.tensor([[[[2, 0, 1], [0, 1, 2], [1, 0, 2]]], [[[0, 1, 2], [2, 0, 1], [0, 1, 2]]]], dtype=torch.int32)
    sizes = dict(BLOCK_SIZE=16, seq_lengths=(QUERIES, KEYS))
    listed, full = blocks_of(counts, indices), blocks_of(full_counts, full_indices)

    def partly(b: Any, h: Any, q: Any, k: Any) -> Any:
        return q % 3 != k % 3

    cases = (
        (flex.BlockMask.from_kv_blocks(counts, indices, **sizes), lambda *_: listed),
        (flex.BlockMask.from_kv_blocks(counts, indices, full_counts, full_indices, mask_mod=partly, **sizes), lambda *p: full | (listed & partly(*p))),
    )
    for block_mask, wanted in cases:
        out = fa2.flex_attention(*qkv(), block_mask=block_mask)
        assert score_reference.error(out, reference(*qkv(), mask_mod=wanted)[0]) < 2e-3


def test_pytorchs_masks_and_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, raising=False)
    made = flex.create_block_mask(flex.and_masks(causal, documents), BATCH, None, QUERIES, KEYS, device="cpu", BLOCK_SIZE=16)

    def score_mod(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return torch.where(k % 2 == 0, score + 0.1 * (q - k), score)

    out = fa2.flex_attention(*qkv(), score_mod=score_mod, block_mask=made)
    wanted = flex.flex_attention(*(x.float() for x in qkv()), score_mod=score_mod, block_mask=made)
    assert score_reference.error(out, wanted) < 2e-3
    one_row = made[:, :, 1]
    with pytest.raises(fa2.InvalidRequest, match="that of a slice, must be set"):
        fa2.flex_attention(*row_of(1), block_mask=one_row)
    one_row.mask_mod, one_row.seq_lengths = lambda b, h, q, k: made.mask_mod(b, h, q + 16, k), (16, KEYS)
    assert score_reference.error(fa2.flex_attention(*row_of(1), block_mask=one_row), reference(*qkv(), mask_mod=made.mask_mod)[0][:, :, 16:32]) < 2e-3
    empty = flex._create_empty_block_mask(*qkv()[:2])
    assert torch.equal(fa2.flex_attention(*qkv(), block_mask=empty), fa2.flex_attention(*qkv()))


def test_pages_of_pytorch() -> None:
    """Its masks map pages to positions by tables that functions read."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    paged = pytest.importorskip("torch.nn.attention.experimental._paged_attention")
    page, pages = 16, BATCH * 3 + 2
    q, k, v = qkv()
    k_cache, v_cache = (torch.zeros(1, HEADS, pages * page, 16).half() for _ in range(2))
    table = paged.PagedAttention(pages, page, BATCH, device="cpu")
    for length in (0, page, KEYS):  # so that sequences take turns
        for entry in range(BATCH):
            table.reserve(torch.tensor(entry), torch.tensor(length))
    table.assign(torch.arange(BATCH), torch.arange(KEYS).expand(BATCH, -1), k, v, k_cache, v_cache)
    logical = flex.create_block_mask(documents, BATCH, None, QUERIES, KEYS, device="cpu", BLOCK_SIZE=page)

    def score_mod(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score + 0.1 * (q - k)

    converted = table.get_score_mod(score_mod), table.convert_logical_block_mask(logical)
    out, lse = fa2.flex_attention(q, k_cache, v_cache, *converted, return_lse=True)
    expected, expected_lse = reference(q, k, v, score_mod=score_mod, mask_mod=documents)
    assert score_reference.error(out, expected) < 2e-3
    assert torch.allclose(lse.double(), expected_lse, atol=2e-3)


def row_of(number: int) -> Any:
    q, k, v = qkv()
    return q[:, :, 16 * number : 16 * (number + 1)], k, v


# ---- errors ----


def refused(pattern: str, tensors: Any = None, kind: type[Exception] = fa2.InvalidRequest, **arguments: Any) -> None:
    with pytest.raises(kind, match=pattern):
        fa2.flex_attention(*(tensors or qkv()), **arguments)


def test_errors() -> None:
    refused(r"key\.shape\[1\] = 2 heads, must be 4, as query has: pass enable_gqa=True", qkv(heads_kv=2))
    refused(r"key\.shape\[0\] = 1 sequences, must be 2, as query has, or 1 with a block_mask", qkv(batch_kv=1))
    refused(r"query\.shape = \(4, 40, 16\), must be \(batch, heads, seqlen, head_dim\)", [x[0] for x in qkv()])
    refused(r"query = ndarray, must be a PyTorch tensor", [x.numpy() for x in qkv()], fa2.InvalidType)
    refused(r"block_mask\.seq_lengths = \(40, 64\), must be \(40, 48\)", block_mask=fa2.create_block_mask(causal, None, None, QUERIES, 64))
    refused(r"block_mask\.B = 3, must be 2, as q has, or 1", block_mask=mask(causal, 3))
    refused(r"block_mask\.H = 2, must be 4, as q has, or 1", block_mask=mask(causal, None, 2))
    refused(r"block_mask = function, must be a BlockMask", kind=fa2.InvalidType, block_mask=causal)
    refused(r"kernel_options = SPEED, must be a hint", kernel_options={"BLOCK_N": 32, "SPEED": 1})
    refused(r"return_aux\.max_scores = True, must be False", return_aux=fa2.AuxRequest(max_scores=True))
    refused(r"return_lse = True, must be False with return_aux", return_lse=True, return_aux=fa2.AuxRequest(lse=True))
    refused(r"dtype = float32", [x.float() for x in qkv()], fa2.InvalidType)
    with pytest.raises(fa2.InvalidType, match="mask_mod = Tensor, must be a function"):
        mask(DOCUMENTS)
    with pytest.raises(fa2.InvalidType, match="mask_mods = BlockMask, must be functions"):
        fa2.and_masks(mask(causal))  # type: ignore[arg-type]
    with pytest.raises(fa2.InvalidType, match=r"pass its mask_mod, or call fa2\.flex_attention"):
        fa2.attention(*qkv(), mask_mod=mask(causal))
