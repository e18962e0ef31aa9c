"""FlashMLA's decoding function against float64."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import reference

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
from fa2.flash_mla_interface import flash_mla_sparse_fwd, flash_mla_with_kvcache, get_mla_metadata  # noqa: E402

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


def lists(queries: int, rows: int, topk: int) -> Any:
    """Returns int32 (queries, topk): different rows, and -1 or a number beyond the last row here and there."""
    generator = torch.Generator().manual_seed(topk)
    found = torch.stack([torch.randperm(rows, generator=generator)[:topk] for _ in range(queries)]).int()
    found[:, 1::5] = -1
    found[:, 3::7] = rows
    found[-1] = -1
    return found


def check_lists(out: Any, lse: Any, q: Any, rows: Any, keys: Any, counts: Any, largest: Any = None) -> None:
    """Checks out (n, heads, DIM_V) and lse (n, heads) of q (n, heads, DIM) whose keys are rows[keys], float64 (rows, DIM)."""
    for i, of_query in enumerate(keys):
        of_query = of_query[: counts[i]]
        own = rows[of_query[(of_query >= 0) & (of_query < len(rows))].long()]
        scores = q[i].double() @ own.T * DIM**-0.5
        wanted = scores.softmax(-1) @ own[:, :DIM_V]
        torch.testing.assert_close(out[i].double(), wanted, atol=4e-3, rtol=8e-3)
        wanted_lse = scores.logsumexp(-1).float() if len(own) else torch.full((HEADS,), torch.inf)
        torch.testing.assert_close(lse[i], wanted_lse, atol=1e-5, rtol=1e-5)
        if largest is not None:
            wanted_max = scores.amax(-1).float() if len(own) else torch.full((HEADS,), -torch.inf)
            torch.testing.assert_close(largest[i], wanted_max, atol=1e-5, rtol=1e-5)


def test_lists_of_keys() -> None:
    q, (_, cache, _) = random(3, 2, HEADS, DIM), paged(8)
    rows, keys = cache.reshape(-1, DIM).double(), lists(6, 3 * ROWS, 20)
    counts = torch.tensor([20, 7, 12], dtype=torch.int32)
    for lengths in (None, counts):
        out, lse = call(q, cache, None, indices=keys.reshape(3, 2, 20), topk_length=lengths)
        assert out.shape == (3, 2, HEADS, DIM_V) and lse.shape == (3, HEADS, 2)
        of_query = [20] * 6 if lengths is None else lengths.repeat_interleave(2)
        check_lists(out.flatten(0, 1), lse.transpose(1, 2).flatten(0, 1), q.flatten(0, 1), rows, keys, of_query)


def test_lists_of_keys_in_pages_with_gaps() -> None:
    q, (_, cache, _) = random(3, 1, HEADS, DIM), paged(8)
    keys = lists(3, 3 * ROWS, 20).reshape(3, 1, 20)
    wanted = call(q, cache, None, indices=keys)
    for gap in (0, 1):
        wide = torch.full((9, 8 + gap, 1, DIM), torch.nan, dtype=cache.dtype)
        wide[:, :8] = cache
        for found, expected in zip(call(q, wide[:, :8], None, indices=keys), wanted):
            assert torch.equal(found, expected)
    crooked = torch.empty(9, 8 * DIM + 8, dtype=cache.dtype)[:, : 8 * DIM].unflatten(1, (8, 1, DIM))
    with pytest.raises(NotImplementedError, match="pages must lie whole rows apart"):
        call(q, crooked, None, indices=keys)


def test_sparse_forward() -> None:
    q, kv, keys = random(5, HEADS, DIM), random(40, 1, DIM), lists(5, 40, 16)
    counts = torch.tensor([16, 0, 3, 16, 9], dtype=torch.int32)
    for lengths in (None, counts):
        out, largest, lse = flash_mla_sparse_fwd(q, kv, keys[:, None], DIM**-0.5, DIM_V, topk_length=lengths)
        check_lists(out, lse, q, kv[:, 0].double(), keys, [16] * 5 if lengths is None else lengths, largest)
    with_sink, *same = flash_mla_sparse_fwd(q, kv, keys[:, None], DIM**-0.5, attn_sink=torch.zeros(HEADS), topk_length=counts)
    factors = lse.masked_fill(lse == torch.inf, 0).sigmoid()
    torch.testing.assert_close(with_sink.float(), out.float() * factors[..., None], atol=2e-3, rtol=2e-3)
    assert torch.equal(same[0], largest) and torch.equal(same[1], lse)


def latent_rows(rows: Any, gap: int = 0) -> tuple[Any, Any]:
    """Returns (DeepSeek-V3.2's rows of (pages, page, 1, DIM), uint8 (pages, page, 1, 656), and what they stand for)."""
    # Factors of four bits: their products with codes are exact in bfloat16, to which some kernels round.
    factors = torch.randint(8, 16, (*rows.shape[:-1], 4), generator=torch.Generator().manual_seed(1)) / 16
    codes = (rows[..., :512].float().unflatten(-1, (4, 128)) / factors[..., None]).to(torch.float8_e4m3fn)
    rotated = rows[..., 512:].bfloat16()
    meant = torch.cat(((codes.double() * factors.double()[..., None]).flatten(-2), rotated.double()), -1)
    parts = codes.flatten(-2).view(torch.uint8), factors.view(torch.uint8), rotated.contiguous().view(torch.uint8)
    memory = torch.full((rows.shape[0], rows.shape[1] + gap, 1, 656), 255, dtype=torch.uint8)
    memory[:, : rows.shape[1]] = torch.cat(parts, -1)
    return memory[:, : rows.shape[1]], meant


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float8_e4m3fn])
def test_rows_with_factors_of_their_own(dtype: Any) -> None:
    q, (_, cache, table) = random(3, 2, HEADS, DIM, dtype=torch.bfloat16), paged(8)
    bytes_, meant = latent_rows(cache, gap=1)
    out, lse = call(q, bytes_.view(dtype), table, is_fp8_kvcache=True)
    for b, n in enumerate(LENGTHS):
        own = meant[table[b].long()].reshape(-1, DIM)[:n]
        wanted, wanted_lse = reference.attention(q[b].double(), own[:, None], own[:, None, :DIM_V])
        torch.testing.assert_close(out[b].double(), torch.from_numpy(wanted), atol=3e-2, rtol=1.6e-2)
        torch.testing.assert_close(lse[b].double(), torch.from_numpy(wanted_lse), atol=1e-5, rtol=1e-5)


def test_lists_of_rows_with_factors_of_their_own() -> None:
    q, (_, cache, _) = random(3, 1, HEADS, DIM, dtype=torch.bfloat16), paged(8)
    bytes_, meant = latent_rows(cache, gap=1)
    keys = lists(3, 3 * ROWS, 20)
    out, lse = call(q, bytes_, None, is_fp8_kvcache=True, indices=keys.reshape(3, 1, 20))
    for b in range(3):
        own = meant.reshape(-1, DIM)[keys[b][(keys[b] >= 0) & (keys[b] < 3 * ROWS)].long()]
        scores = q[b, 0].double() @ own.T * DIM**-0.5
        torch.testing.assert_close(out[b, 0].double(), scores.softmax(-1) @ own[:, :DIM_V], atol=3e-2, rtol=1.6e-2)
        wanted = scores.logsumexp(-1).float() if len(own) else torch.full((HEADS,), torch.inf)
        torch.testing.assert_close(lse[b, :, 0], wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_what_append_writes_is_read(device: str) -> None:
    q, new = random(2, 1, HEADS, DIM, dtype=torch.bfloat16), random(2, ROWS, 1, DIM, dtype=torch.bfloat16)
    rows = torch.zeros(7, 8, 1, 656, dtype=torch.uint8).view(torch.float8_e4m3fn).to(device)
    table = torch.tensor([[4, 1, 0], [6, 3, 2]], dtype=torch.int32)
    begins, lengths = torch.zeros(2, dtype=torch.int32), torch.full((2,), ROWS, dtype=torch.int32)
    given = (x.to(device) for x in (new[..., 512:], new[..., :512], begins, table))
    k, v, begins, table = given
    fa2.append(k, v, rows, rows[..., :512], begins, page_table=table)
    out, lse = flash_mla_with_kvcache(q.to(device), rows, table, lengths.to(device), DIM_V, METADATA, SPLITS, is_fp8_kvcache=True)
    groups = new[..., :512].double().unflatten(-1, (4, 128))
    factors = torch.exp2(torch.ceil(torch.log2(groups.abs().amax(-1, keepdim=True) / 448)))
    codes = (groups / factors).float().to(torch.float8_e4m3fn).double() * factors
    meant = torch.cat((codes.flatten(-2), new[..., 512:].double()), -1)
    for b in range(2):
        wanted, wanted_lse = reference.attention(q[b].double(), meant[b], meant[b][..., :DIM_V])
        torch.testing.assert_close(out[b].double().cpu(), torch.from_numpy(wanted), atol=3e-2, rtol=1.6e-2)
        torch.testing.assert_close(lse[b].double().cpu(), torch.from_numpy(wanted_lse), atol=1e-5, rtol=1e-5)


def test_what_append_refuses_of_rows() -> None:
    rows = torch.zeros(2, 8, 1, 656, dtype=torch.uint8).view(torch.float8_e4m3fn)
    k, v, begins = random(2, 1, 1, 64, dtype=torch.bfloat16), random(2, 1, 1, 512, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.int32)
    for cache in (rows[..., 16:528], rows.clone()[..., :512]):
        with pytest.raises(fa2.InvalidRequest, match="v_cache = other memory than k_cache, must be k_cache"):
            fa2.append(k, v, rows, cache, begins)
    with pytest.raises(fa2.InvalidRequest, match="dtype = f16, must be bf16 with kv_type ds_mla"):
        fa2.append(k.half(), v.half(), rows, rows[..., :512], begins)
    with pytest.raises(fa2.InvalidRequest, match="v_descale = given, must be null, or the problem's kv_type e4m3"):
        fa2.append(k, v, rows, rows[..., :512], begins, v_descale=torch.ones(2, 1))


def test_it_has_no_gradient() -> None:
    _, cache, table = paged(8)
    assert not call(random(3, 1, HEADS, DIM).requires_grad_(), cache, table)[0].requires_grad


def test_what_is_refused() -> None:
    q, (_, cache, table) = random(3, 1, HEADS, DIM), paged(8)
    given = dict(extra_k_cache=cache, extra_indices_in_kvcache=table, extra_topk_length=table)
    for name, value in given.items():
        with pytest.raises(NotImplementedError, match=f"{name} = given, must be None: fa2 reads one cache.*fa2.merge"):
            call(q, cache, None, **{name: value})
    rows_of_584 = torch.zeros(9, 8, 1, 584, dtype=torch.uint8)
    for dtype in (torch.uint8, torch.float8_e4m3fn):
        with pytest.raises(NotImplementedError, match=r"k_cache.shape = \(9, 8, 1, 584\), must have q's 576 columns, or rows of 656"):
            call(q, rows_of_584.view(dtype), table, is_fp8_kvcache=True)
    with pytest.raises(fa2.InvalidRequest, match="dtype = f16, must be bf16 with kv_type ds_mla"):
        call(q, torch.zeros(9, 8, 1, 656, dtype=torch.uint8), table, is_fp8_kvcache=True)
    with pytest.raises(fa2.InvalidRequest, match="topk_length = given, must be None without indices"):
        call(q, cache, table, topk_length=torch.zeros(3, dtype=torch.int32))
    with pytest.raises(fa2.InvalidRequest) as error:
        call(q, cache, None, indices=table, topk_length=torch.zeros(2, dtype=torch.int32), causal=True)
    for line in (r"indices = torch.int32 (3, 3), must be torch.int32 (3, 1, topk)", "topk_length = (2,), must be (3,)", "causal = True"):
        assert line in str(error.value)
    with pytest.raises(NotImplementedError, match=r"kv.shape = \(9, 2, 576\), must be \(seqlen_k, 1, head_dim\)"):
        flash_mla_sparse_fwd(random(3, HEADS, DIM), random(9, 2, DIM), lists(3, 9, 4)[:, None], 1.0)
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
