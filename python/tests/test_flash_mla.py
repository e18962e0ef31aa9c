"""FlashMLA's decoding function against float64."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import reference

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
from fa2.flash_mla_interface import flash_mla_with_kvcache, get_mla_metadata  # noqa: E402

HEADS, DIM, DIM_V, ROWS = 2, 576, 512, 24
LENGTHS = (24, 0, 9)
METADATA, SPLITS = get_mla_metadata(1, 2, three=3)


def random(*shape: int, seed: int = 0, dtype: Any = torch.float16) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def paged(page: int, dtype: Any = torch.float16) -> tuple[Any, Any, Any]:
    """Returns the keys of three sequences (3, ROWS, 1, DIM), a cache of pages in another order, and its table."""
    rows = random(3, ROWS, 1, DIM, dtype=dtype)
    table = torch.randperm(3 * ROWS // page, generator=torch.Generator().manual_seed(page)).int().reshape(3, -1)
    cache = torch.empty(3 * ROWS // page, page, 1, DIM, dtype=dtype)
    cache[table.flatten()] = rows.reshape(-1, page, 1, DIM)
    return rows, cache, table


def call(q: Any, cache: Any, table: Any, **options: Any) -> Any:
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device=q.device)
    return flash_mla_with_kvcache(q, cache, table, lengths, DIM_V, METADATA, SPLITS, **options)


def check(found: Any, q: Any, rows: Any, causal: bool = False, sink: Any = None, factor: float = 1.0) -> None:
    out, lse = found
    assert out.dtype == q.dtype and out.shape == (*q.shape[:3], DIM_V)
    assert lse.dtype == torch.float32 and lse.shape == (q.shape[0], HEADS, q.shape[1])
    for b, n in enumerate(LENGTHS):
        own = rows[b, :n].double() * factor
        options: dict[str, Any] = dict(mask="bottom_right" if causal else None)
        wanted, wanted_lse = reference.attention(q[b], own, own[..., :DIM_V], **options)
        wanted = torch.from_numpy(wanted)
        torch.testing.assert_close(lse[b].double(), torch.from_numpy(wanted_lse), atol=1e-5, rtol=1e-5)
        if sink is not None:
            with_sink, _ = reference.attention(q[b], own, own[..., :DIM_V], sinks=sink, **options)
            wanted = torch.from_numpy(with_sink)
        torch.testing.assert_close(out[b].double(), wanted, atol=4e-3, rtol=2e-3)


def test_arguments_are_flash_mlas() -> None:
    names = list(inspect.signature(flash_mla_with_kvcache).parameters)
    assert names[:6] == ["q", "k_cache", "block_table", "cache_seqlens", "head_dim_v", "tile_scheduler_metadata"]
    assert names[6:10] == ["num_splits", "softmax_scale", "causal", "is_fp8_kvcache"]
    assert names[10:] == [
        *("indices", "attn_sink", "extra_k_cache", "extra_indices_in_kvcache", "topk_length", "extra_topk_length"),
        *("descale_q", "descale_k"),
    ]
    assert SPLITS is None


@pytest.mark.parametrize("page", [1, 8, 24])
def test_pages_of_any_size(page: int) -> None:
    q, (rows, cache, table) = random(3, 1, HEADS, DIM), paged(page)
    check(call(q, cache, table), q, rows)


def test_several_queries_and_a_causal_mask() -> None:
    q, (rows, cache, table) = random(3, 4, HEADS, DIM), paged(8)
    check(call(q, cache, table, causal=True), q, rows, causal=True)
    check(call(q, cache, table), q, rows)


def test_values_are_read_with_their_keys(monkeypatch: Any) -> None:
    from fa2 import flash_mla_interface

    seen: list[Any] = []
    monkeypatch.setattr(flash_mla_interface, "attend", lambda q, k, v, *_: seen.extend((q, k, v)) or (q[..., :DIM_V], None))
    _, cache, table = paged(8)
    call(random(3, 1, HEADS, DIM), cache, table)
    assert fa2.explain(seen[0], seen[1][:3], seen[2][:3])["problem"]["values_in_keys"]


def test_scale() -> None:
    q, (_, cache, table) = random(3, 1, HEADS, DIM), paged(8)
    for found, wanted in zip(call(q * 2, cache, table, softmax_scale=0.5 * DIM**-0.5), call(q, cache, table)):
        torch.testing.assert_close(found, wanted)


def test_sinks_are_no_part_of_the_lse() -> None:
    q, (rows, cache, table) = random(3, 2, HEADS, DIM), paged(8)
    for sink in ([1.0, -3.0], [20.0, -torch.inf]):
        check(call(q, cache, table, causal=True, attn_sink=torch.tensor(sink)), q, rows, True, sink)
    out, lse = call(q, cache, table, attn_sink=torch.full((HEADS,), torch.inf))
    assert (out == 0).all() and torch.equal(lse, call(q, cache, table)[1])


def test_8_bits() -> None:
    q, (rows, cache, table) = random(3, 2, HEADS, DIM), paged(8, torch.float8_e4m3fn)
    check(call(q, cache, table, is_fp8_kvcache=True), q, rows)
    check(call(q, cache, table, descale_k=torch.tensor([0.25]), attn_sink=torch.zeros(HEADS)), q, rows, False, [0.0, 0.0], 0.25)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.float8_e4m3fn])
def test_a_gpu_computes_the_same(dtype: Any) -> None:
    _, cache, table = paged(8, dtype)
    tensors = random(3, 2, HEADS, DIM), cache, table, torch.tensor([1.0, -3.0])
    (*given, sink), (*given_cuda, sink_cuda) = tensors, (x.cuda() for x in tensors)
    expected = call(*given, causal=True, attn_sink=sink)
    for found, wanted in zip(call(*given_cuda, causal=True, attn_sink=sink_cuda), expected):
        torch.testing.assert_close(found.cpu(), wanted, atol=4e-3, rtol=2e-3)


def test_indices_are_a_table_of_pages_of_one_row() -> None:
    """What the error for `indices` says to call."""
    q, (_, cache, _) = random(3, 1, HEADS, DIM), paged(8)
    pages = cache.reshape(-1, 1, 1, DIM)
    indices, counts = torch.randperm(len(pages))[:18].reshape(3, 6).int(), torch.tensor([6, 0, 2], dtype=torch.int32)
    out = fa2.attention(q, pages, pages[..., :DIM_V], page_table=indices, seqused_k=counts)
    for b, n in enumerate(counts):
        own = pages[indices[b, :n], 0]
        wanted, _ = reference.attention(q[b], own, own[..., :DIM_V])
        torch.testing.assert_close(out[b].double(), torch.from_numpy(wanted), atol=4e-3, rtol=2e-3)


def test_it_has_no_gradient() -> None:
    _, cache, table = paged(8)
    assert not call(random(3, 1, HEADS, DIM).requires_grad_(), cache, table)[0].requires_grad


def test_what_is_refused() -> None:
    q, (_, cache, table) = random(3, 1, HEADS, DIM), paged(8)
    given = dict(indices=table, extra_k_cache=cache, extra_indices_in_kvcache=table, topk_length=table, extra_topk_length=table)
    for name, value in given.items():
        with pytest.raises(NotImplementedError, match=f"{name} = given, must be None: fa2 has no sparse decoding.*page_table"):
            call(q, cache, None, **{name: value})
    rows_of_656 = torch.zeros(9, 8, 1, 656, dtype=torch.uint8)
    for dtype in (torch.uint8, torch.float8_e4m3fn):
        with pytest.raises(NotImplementedError, match=r"k_cache.shape = \(9, 8, 1, 656\), must have q's 576 columns.*descale_k"):
            call(q, rows_of_656.view(dtype), table, is_fp8_kvcache=True)
    with pytest.raises(fa2.InvalidRequest) as error:
        flash_mla_with_kvcache(
            q, cache, table, None, 600, None, is_fp8_kvcache=True, attn_sink=torch.zeros(1), descale_q=torch.ones(1), descale_k=torch.ones(2)
        )
    lines = [line.strip() for line in str(error.value).split("\n")]
    wanted = [
        "invalid request, 6 rules broken:",
        "block_table, cache_seqlens = None",
        "head_dim_v = 600, must be in 1..576",
        "is_fp8_kvcache = True, must be False with k_cache of torch.float16",
        "attn_sink = torch.float32 (1,), must be torch.float32 (2,) = (heads)",
        "descale_q = given, must be None: q has 16 bits",
        "descale_k = (2,), must be (1) with k_cache of float8_e4m3fn",
    ]
    assert len(lines) == len(wanted) and all(line.startswith(start) for line, start in zip(lines, wanted)), lines
    with pytest.raises(fa2.InvalidType, match=r"uint8: .* pass x.view\(torch.float8_e4m3fn\)"):
        call(q, cache.to(torch.float8_e4m3fn).view(torch.uint8), table)
    with pytest.raises(fa2.InvalidRequest, match=r"k_cache.shape = \(9, 8, 1, 512\)"):
        call(q, cache[..., :512], table)
