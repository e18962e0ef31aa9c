"""flash_attn_with_kvcache() in both interfaces: which rows are appended and visible, and which calls are rejected."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import flash_reference  # noqa: E402

import fa2  # noqa: E402
from fa2 import flash_attn_3_interface as flash3  # noqa: E402
from fa2 import flash_attn_interface as flash  # noqa: E402
from fa2.rotary import apply_rotary_emb  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
ENTRIES, ROWS, HEADS = 3, 32, 2


def int32(*values: int, device: str = "cpu") -> Any:
    return torch.tensor(values, dtype=torch.int32, device=device)


def tensors(device: str, head_dim: int = 64, new: int = 4) -> tuple[Any, ...]:
    """Returns q, k_cache, v_cache, k and v."""
    torch.manual_seed(head_dim + new)
    cache, fresh = (ENTRIES, ROWS, HEADS, head_dim), (2, new, HEADS, head_dim)
    shapes = ((2, 4, 2 * HEADS, head_dim), cache, cache, fresh, fresh)
    return tuple(torch.randn(shape, dtype=torch.float16, device=device) for shape in shapes)


def angles(device: str, rotary_dim: int = 32) -> tuple[Any, Any]:
    turns = torch.arange(ROWS, device=device)[:, None] * torch.linspace(0.1, 1, rotary_dim // 2, device=device)
    return turns.cos().half(), turns.sin().half()


def expect(out: Any, q: Any, keys: list[Any], values: list[Any], causal: bool, chunk: int = 0) -> None:
    """Checks the result by FlashAttention's criterion, with each sequence's own keys and values."""
    for b in range(q.shape[0]):
        operands = q[b : b + 1], keys[b][None], values[b][None]
        exact, _ = flash_reference.attention(*operands, causal=causal, chunk=chunk)
        low, _ = flash_reference.attention(*operands, causal=causal, chunk=chunk, low_precision=True)
        error = (out[b : b + 1].float() - exact.float()).abs().max()
        assert error <= 3 * (low.float() - exact.float()).abs().max() + 1e-5


def paged(cache: Any, page: int) -> tuple[Any, Any]:
    """Returns the cache's first two entries in scattered pages, and their table, which is a slice of a wider one."""
    pages = cache[:2].reshape(-1, page, *cache.shape[2:])
    order = torch.randperm(len(pages), generator=torch.Generator().manual_seed(page)).to(cache.device)
    table = torch.empty_like(order)
    table[order] = torch.arange(len(pages), device=cache.device)
    table = table.reshape(2, -1).int()
    return pages[order].contiguous(), torch.nn.functional.pad(table, (0, 3), value=-1)[:, : table.shape[1]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])
def test_appends_and_turns(device: str, causal: bool, interleaved: bool) -> None:
    q, k_cache, v_cache, k, v = tensors(device)
    cos, sin = angles(device)
    seqlens, entries = int32(5, 9, device=device), int32(2, 0, device=device)
    before = k_cache.clone(), v_cache.clone()
    out, lse = flash.flash_attn_with_kvcache(
        q,
        k_cache,
        v_cache,
        k,
        v,
        cos,
        sin,
        cache_seqlens=seqlens,
        cache_batch_idx=entries,
        causal=causal,
        rotary_interleaved=interleaved,
        num_splits=3,
        return_softmax_lse=True,
    )
    assert lse.shape == (2, 2 * HEADS, 4) and lse.dtype == torch.float32
    turned = apply_rotary_emb(k, cos, sin, interleaved, seqlen_offsets=seqlens)
    if causal:
        q = apply_rotary_emb(q, cos, sin, interleaved, seqlen_offsets=seqlens)
    else:  # every query has the position of the first new row
        q = torch.cat([apply_rotary_emb(x, cos, sin, interleaved, seqlen_offsets=seqlens) for x in q.split(1, 1)], 1)
    for b, (entry, start) in enumerate(((2, 5), (0, 9))):
        before[0][entry, start : start + 4], before[1][entry, start : start + 4] = turned[b], v[b]
    torch.testing.assert_close(k_cache, before[0], atol=1e-3, rtol=1e-3)
    assert torch.equal(v_cache, before[1])
    expect(out, q, [k_cache[2, :9], k_cache[0, :13]], [v_cache[2, :9], v_cache[0, :13]], causal)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("page", [4, 16])
def test_pages_of_any_size(device: str, page: int) -> None:
    q, k_cache, v_cache, k, v = tensors(device)
    (k_pages, table), (v_pages, _) = paged(k_cache, page), paged(v_cache, page)
    seqlens = int32(11, 28, device=device)
    out = flash.flash_attn_with_kvcache(
        q, k_pages, v_pages, k, v, cache_seqlens=seqlens, block_table=table, causal=True
    )
    for b, start in enumerate((11, 28)):
        k_cache[b, start : start + 4], v_cache[b, start : start + 4] = k[b], v[b]
    assert torch.equal(k_pages[table.long()].reshape(2, ROWS, HEADS, -1), k_cache[:2])
    expect(out, q, [k_cache[0, :15], k_cache[1]], [v_cache[0, :15], v_cache[1]], causal=True)
    with pytest.raises(RuntimeError, match="block_table"):
        flash.flash_attn_with_kvcache(
            q, k_pages, v_pages, k, v, cache_seqlens=int32(11, 29, device=device), block_table=table
        )
    with pytest.raises(RuntimeError, match="block_table"):
        flash.flash_attn_with_kvcache(q, k_pages, v_pages, cache_seqlens=ROWS + 1, block_table=table)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_chunks_of_version_3(device: str, causal: bool) -> None:
    q, k_cache, v_cache, k, v = tensors(device)
    (k_pages, table), (v_pages, _) = paged(k_cache, 4), paged(v_cache, 4)
    seqlens = int32(11, 20, device=device)
    options: dict[str, Any] = dict(cache_seqlens=seqlens, page_table=table, causal=causal, attention_chunk=9)
    out = flash3.flash_attn_with_kvcache(q, k_pages, v_pages, k, v, **options)
    for b, start in enumerate((11, 20)):
        k_cache[b, start : start + 4], v_cache[b, start : start + 4] = k[b], v[b]
    expect(out, q, [k_cache[0, :15], k_cache[1, :24]], [v_cache[0, :15], v_cache[1, :24]], causal, chunk=9)
    # With chunks each query has a position of its own, as under a mask.
    turned = flash3.flash_attn_with_kvcache(q, k_pages, v_pages, k, v, None, *angles(device), **options)
    cos, sin = angles(device)
    q, k = (apply_rotary_emb(x, cos, sin, True, seqlen_offsets=seqlens) for x in (q, k))
    for b, start in enumerate((11, 20)):
        k_cache[b, start : start + 4] = k[b]
    expect(turned, q, [k_cache[0, :15], k_cache[1, :24]], [v_cache[0, :15], v_cache[1, :24]], causal, chunk=9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["dense", "entries", "pages", "strided"])
def test_padding_on_the_left(device: str, kind: str) -> None:
    q, k_cache, v_cache, k, v = tensors(device)
    seqlens, padding = int32(12, 20, device=device), int32(3, 7, device=device)
    options: dict[str, Any] = dict(cache_seqlens=seqlens, cache_leftpad=padding, causal=True)
    order = [0, 1]
    if kind == "strided":
        k_cache, v_cache = (torch.cat((x, x), 1)[:, :ROWS] for x in (k_cache, v_cache))
    if kind == "entries":
        order = [2, 0]
        options["cache_batch_idx"] = int32(*order, device=device)
    if kind == "pages":
        (k_pages, table), (v_pages, _) = paged(k_cache, 8), paged(v_cache, 8)
        out = flash3.flash_attn_with_kvcache(q, k_pages, v_pages, k, v, page_table=table, **options)
    else:
        out = flash.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, **options)
    keys, values = k_cache[order].clone(), v_cache[order].clone()
    for b, start in enumerate((12, 20)):
        keys[b, start : start + 4], values[b, start : start + 4] = k[b], v[b]
    expect(out, q, [keys[0, 3:16], keys[1, 7:24]], [values[0, 3:16], values[1, 7:24]], causal=True)


def test_lengths_are_a_number_or_everything() -> None:
    q, k_cache, v_cache, _, _ = tensors("cpu")
    out = flash.flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens=20)
    expect(out, q, list(k_cache[:, :20]), list(v_cache[:, :20]), causal=False)
    out = flash.flash_attn_with_kvcache(q, k_cache, v_cache)
    expect(out, q, list(k_cache), list(v_cache), causal=False)
    out = flash.flash_attn_with_kvcache(q, k_cache, v_cache, cache_batch_idx=int32(2, 0))
    expect(out, q, [k_cache[2], k_cache[0]], [v_cache[2], v_cache[0]], causal=False)


def test_head_dims_that_are_padded_are_written_back() -> None:
    q, k_cache, v_cache, k, v = tensors("cpu", head_dim=59)
    out = flash.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=int32(5, 5), causal=True)
    assert torch.equal(k_cache[:2, 5:9], k) and torch.equal(v_cache[:2, 5:9], v)
    assert out.shape == q.shape
    expect(out, q, list(k_cache[:, :9]), list(v_cache[:, :9]), causal=True)


def test_packed_queries_and_new_keys() -> None:
    q, k_cache, v_cache, k, v = tensors("cpu")
    seqlens, cu_q, cu_new = int32(5, 9), int32(0, 1, 5), int32(0, 3, 7)
    packed_q = torch.cat((q[0, :1], q[1]))
    packed_k, packed_v = torch.cat((k[0, :3], k[1])), torch.cat((v[0, :3], v[1]))
    (k_pages, table), (v_pages, _) = paged(k_cache, 1), paged(v_cache, 1)
    out, lse = flash3.flash_attn_with_kvcache(
        packed_q,
        k_pages,
        v_pages,
        packed_k,
        packed_v,
        cache_seqlens=seqlens,
        page_table=table,
        cu_seqlens_q=cu_q,
        cu_seqlens_k_new=cu_new,
        max_seqlen_q=4,
        causal=True,
        return_softmax_lse=True,
    )
    assert lse.shape == (2 * HEADS, 5)
    k_cache[0, 5:8], k_cache[1, 9:13], v_cache[0, 5:8], v_cache[1, 9:13] = k[0, :3], k[1], v[0, :3], v[1]
    expect(out[None, :1], q[:1, :1], [k_cache[0, :8]], [v_cache[0, :8]], causal=True)
    expect(out[None, 1:], q[1:], [k_cache[1, :13]], [v_cache[1, :13]], causal=True)


def test_positions_without_tables_are_ignored() -> None:
    q, k_cache, v_cache, k, v = tensors("cpu")
    for new in ((), (k, v)):
        options: dict[str, Any] = dict(cache_seqlens=int32(5, 9), causal=True)
        plain = flash3.flash_attn_with_kvcache(q, k_cache.clone(), v_cache.clone(), *new, **options)
        options["rotary_seqlens"] = int32(1, 2)
        assert torch.equal(flash3.flash_attn_with_kvcache(q, k_cache.clone(), v_cache.clone(), *new, **options), plain)


def test_what_is_refused() -> None:
    q, k_cache, v_cache, k, v = tensors("cpu")
    call = flash.flash_attn_with_kvcache
    with pytest.raises(fa2.InvalidRequest, match="cache_seqlens"):
        call(q, k_cache, v_cache, k, v)
    with pytest.raises(fa2.InvalidRequest, match="k with v"):
        call(q, k_cache, v_cache, k, cache_seqlens=0)
    with pytest.raises(fa2.InvalidRequest, match="pass k and v"):
        call(q, k_cache, v_cache, None, None, *angles("cpu"), cache_seqlens=0)
    with pytest.raises(fa2.InvalidRequest, match="cache_batch_idx"):
        call(q, k_cache, v_cache, block_table=int32(0, 1)[:, None], cache_batch_idx=int32(0, 1))
    with pytest.raises(fa2.InvalidRequest, match="contiguous last"):
        call(q, k_cache.transpose(1, 3), v_cache.transpose(1, 3))
    with pytest.raises(NotImplementedError, match="apart"):
        call(q, k_cache[:1].expand(2, -1, -1, -1), v_cache, cache_seqlens=4, cache_leftpad=int32(0, 1))
    with pytest.raises(NotImplementedError, match="q_descale = given"):
        flash3.flash_attn_with_kvcache(q, k_cache, v_cache, q_descale=q)


@pytest.mark.parametrize("name", ["flash_attn_interface", "flash_attn_3_interface"])
def test_the_lse_is_computed_only_if_it_is_wanted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from fa2 import _flash_cache

    wanted: list[bool] = []
    original = _flash_cache.attend
    monkeypatch.setattr(_flash_cache, "attend", lambda *args: wanted.append(args[-1]) or original(*args))
    function = importlib.import_module(f"fa2.{name}").flash_attn_with_kvcache
    q, cache = torch.zeros(1, 1, 2, 16, dtype=torch.float16), torch.zeros(1, 8, 2, 16, dtype=torch.float16)
    assert function(q, cache, cache).shape == q.shape
    assert function(q, cache, cache, return_softmax_lse=True)[1].shape == (1, 2, 1)
    assert wanted == [False, True]
