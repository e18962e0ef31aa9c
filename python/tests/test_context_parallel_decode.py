"""fa2.context_parallel.decode() on ranks that are processes of gloo, on the interpreter, against attention in float64."""

from __future__ import annotations

import pathlib
import re
from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import torch.distributed as dist  # noqa: E402
from fa2 import context_parallel as cp  # noqa: E402
from rank_pool import RankPool  # noqa: E402
from shard_inputs import random  # noqa: E402

BATCH, HEADS, HEADS_KV, DIM, PAGE = 2, 6, 2, 64, 16
ROWS = (48, 80, 32)  #: of each rank's cache, whole pages


def exact(q: Any, k: Any, v: Any, softcap: float, sinks: Any, scale: float | None) -> tuple[Any, Any]:
    """Returns (out, lse) in float64 of one sequence: q (queries, heads, dim), k and v (keys, heads_kv, dim)."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    scores = q @ k.transpose(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    if sinks is not None:
        scores = torch.cat((scores, sinks.double()[:, None, None].expand(-1, scores.shape[1], 1)), -1)
        v = torch.cat((v, v.new_zeros(len(v), 1, v.shape[-1])), 1)
    lse = scores.logsumexp(-1) if scores.shape[-1] else scores.new_full(scores.shape[:2], torch.inf)
    return ((scores.softmax(-1) @ v).transpose(0, 1), lse)


CASES: dict[str, dict[str, Any]] = {
    "whole caches": {},
    "lengths": dict(lengths=((48, 7), (0, 80), (1, 0))),
    "a number": dict(lengths=(20, 0, 32)),
    "a sequence without keys": dict(lengths=((0, 5), (0, 80), (0, 1)), queries=2),
    "pages": dict(lengths=((48, 7), (0, 80), (1, 32)), paged=True, queries=3),
    "softcap, sinks, scale": dict(lengths=((40, 7), (3, 80), (1, 32)), softcap=3.0, sinks=True, softmax_scale=0.2),
    "a rank without rows": dict(rows=(40, 0, 24), causal=True),
    "float16, values of another head dim": dict(dtype=torch.float16, dim_v=32, lengths=((48, 7), (9, 80), (1, 0))),
}


def pages_of(x: Any, seed: int) -> tuple[Any, Any]:
    """Returns the same rows in pages, in random order, and their table."""
    batch, rows = x.shape[:2]
    table = torch.randperm(batch * rows // PAGE, generator=torch.Generator().manual_seed(seed)).int()
    pages = torch.empty(len(table), PAGE, *x.shape[2:], dtype=x.dtype)
    pages[table.long()] = x.reshape(pages.shape)
    return pages, table.view(batch, -1)


def whole_of(case: dict[str, Any], ranks: int) -> tuple[Any, list[Any], list[Any]]:
    """Returns q of all heads, and K and V of each rank."""
    dtype, rows = case.get("dtype", torch.bfloat16), case.get("rows", ROWS)[:ranks]
    q = random(BATCH, case.get("queries", 1), HEADS, DIM, dtype=dtype)
    k = [random(BATCH, n, HEADS_KV, DIM, dtype=dtype, seed=10 + rank) for rank, n in enumerate(rows)]
    v = [random(BATCH, n, HEADS_KV, case.get("dim_v", DIM), dtype=dtype, seed=20 + rank) for rank, n in enumerate(rows)]
    return q, k, v


def expected_of(case: dict[str, Any], ranks: int) -> tuple[Any, Any]:
    q, k, v = whole_of(case, ranks)
    made = []
    for b in range(BATCH):
        kept: tuple[list[Any], list[Any]] = [], []
        for rank in range(ranks):
            used = case["lengths"][rank] if "lengths" in case else k[rank].shape[1]
            n = used if isinstance(used, int) else used[b]
            kept[0].append(k[rank][b, :n])
            kept[1].append(v[rank][b, :n])
        sinks = torch.arange(float(HEADS)) / 2 if "sinks" in case else None
        made.append(exact(q[b], torch.cat(kept[0]), torch.cat(kept[1]), case.get("softcap", 0.0), sinks, case.get("softmax_scale")))
    return torch.stack([out for out, _ in made]), torch.stack([lse for _, lse in made])


def call_of(case: dict[str, Any], rank: int, ranks: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the tensors and the options of a rank."""
    q, k, v = whole_of(case, ranks)
    own = HEADS // ranks
    options = {name: case[name] for name in ("softcap", "softmax_scale", "causal") if name in case}
    if "sinks" in case:
        options["sinks"] = torch.arange(float(HEADS)) / 2
    if "lengths" in case:
        used = case["lengths"][rank]
        options["cache_seqlens"] = used if isinstance(used, int) else torch.tensor(used, dtype=torch.int32)
    caches = k[rank], v[rank]
    if "paged" in case:
        (pages_k, options["page_table"]), (pages_v, _) = (pages_of(x, rank) for x in caches)
        caches = pages_k, pages_v
    return (q[:, :, rank * own : (rank + 1) * own], *caches), options


def decode(group: Any, name: str) -> None:
    rank, ranks, case = dist.get_rank(group), dist.get_world_size(group), CASES[name]
    tensors, options = call_of(case, rank, ranks)
    if "rows" in case:  # other rows than those of the cases before
        cp.plan_decode(*tensors, group=group, **options)
    out, lse = cp.decode(*tensors, group=group, return_lse=True, **options)
    assert torch.equal(out, cp.decode(*tensors, group=group, **options)), "every run has the same bits"
    expected, expected_lse = (x.tensor_split(ranks, dim)[rank] for x, dim in zip(expected_of(case, ranks), (2, 1)))
    assert out.dtype == tensors[0].dtype and out.shape == expected.shape and lse.dtype == torch.float32
    torch.testing.assert_close(out.double(), expected.nan_to_num(), rtol=0, atol=2e-2)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_decoding_is_attention_over_all_caches(pool: RankPool, name: str) -> None:
    pool.run(3, decode, name)


@pytest.mark.parametrize("ranks", [1, 2])
def test_fewer_ranks(pool: RankPool, ranks: int) -> None:
    pool.run(ranks, decode, "lengths")


def strided(group: Any) -> None:
    case, rank = CASES["lengths"], dist.get_rank(group)
    (q, k, v), options = call_of(case, rank, 2)
    expected = cp.decode(q, k, v, group=group, **options)
    odd = q.new_zeros(*q.shape[:3], 2 * DIM)[..., 1::2].copy_(q)
    by_head = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (k, v)]
    with mock.patch("fa2._hooks.text_of", side_effect=AssertionError("which would wait for a device")):
        assert torch.equal(cp.decode(odd, *by_head, group=group, **options), expected)


def test_strides(pool: RankPool) -> None:
    pool.run(2, strided)


def run_the_page(group: Any, code: str) -> None:
    rank, used = dist.get_rank(), torch.zeros(1, dtype=torch.int32)
    k_cache, v_cache = (torch.zeros(1, 2, 1, 32, dtype=torch.bfloat16) for _ in "kv")
    keys, values = (random(1, 4, 1, 32, seed=seed) for seed in (1, 2))
    for step in range(4):
        q = random(1, 1, 3, 32, seed=30 + step)
        names: dict[str, Any] = dict(fa2=fa2, cp=cp, dist=dist, step=step, used=used, k_cache=k_cache, v_cache=v_cache)
        names.update(q=q[:, :, rank : rank + 1], k=keys[:, step : step + 1], v=values[:, step : step + 1])
        exec(code, names)
        whole = fa2.attention(q, keys[:, : step + 1], values[:, : step + 1])
        torch.testing.assert_close(names["out"], whole[:, :, rank : rank + 1], rtol=0, atol=2e-2)


def test_the_example_of_the_page_runs(pool: RankPool) -> None:
    page = (pathlib.Path(__file__).parents[2] / "docs/python.md").read_text().split("**Decoding**")[1]
    pool.run(3, run_the_page, re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])


# ---- plans ----


def error_of(function: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(fa2.Error) as raised:
        function(*arguments, **options)
    assert isinstance(raised.value, fa2.InvalidRequest)
    return str(raised.value)


def change_shapes(group: Any) -> None:
    rank = dist.get_rank(group)
    (q, k, v), options = call_of(CASES["lengths"], rank, 2)
    cp.plan_decode(q, k, v, group=group, **options)
    expected = cp.decode(q, k, v, group=group, **options)
    larger = [torch.cat((x, x), 1) for x in (k, v)] if rank == 1 else [k, v]
    text = error_of(cp.decode, q, *larger, group=group, **options)
    if rank == 1:
        assert "k_cache, v_cache = 160 rows, must be as in a plan, " in text and "80 rows" in text and "allocate caches once" in text
    else:
        assert 'request of rank 1 = "' in text
    assert cp.plan_decode(q, *larger, group=group, **options)["kernels"]
    torch.testing.assert_close(cp.decode(q, *larger, group=group, **options), expected, rtol=0, atol=1.6e-2)
    assert torch.equal(cp.decode(q, k, v, group=group, **options), expected), "the plan of the first shape is still there"
    with pytest.raises(TypeError, match="scale"):
        cp.plan_decode(q, k, v, group=group, scale=1.0)


def break_the_link(group: Any) -> None:
    (q, k, v), options = call_of(CASES["lengths"], dist.get_rank(group), 2)
    cp.plan_decode(q, k, v, group=group, **options)
    expected = cp.decode(q, k, v, group=group, **options)
    with mock.patch("torch.distributed.all_gather", side_effect=OSError("no cable")), pytest.raises(fa2.CommunicationError):
        cp.plan_decode(q, k, v, group=group, **options)
    assert torch.equal(cp.decode(q, k, v, group=group, **options), expected)


def test_an_error_leaves_the_plans_of_before(pool: RankPool) -> None:
    pool.run(2, break_the_link)


def test_caches_of_other_shapes_need_a_plan(pool: RankPool) -> None:
    pool.run(2, change_shapes)


def compile_it(group: Any) -> None:
    (q, k, v), options = call_of(CASES["lengths"], 0, 1)
    run = torch.compile(lambda q: cp.decode(q + 0, k, v, group=group, **options) * 2, backend="eager")
    assert torch.equal(run(q), cp.decode(q, k, v, group=group, **options) * 2)


def test_compiled_code_runs_it_outside_of_graphs(pool: RankPool) -> None:
    pool.run(1, compile_it)


# ---- errors ----


def find_mistakes(group: Any) -> None:
    (q, k, v), _ = call_of({"queries": 2}, dist.get_rank(group), 2)
    text = error_of(cp.decode, q, k[..., :32], v[:, :, :1], group=group, causal=True, window_size=(5, 0), cache_seqlens=-1)
    lines = [
        "causal = True, must be False: queries see all keys of all caches",
        "window_size = (5, 0), must be (-1, -1)",
        "k_cache.shape[-1] = 32, must be 64 = head_dim of q",
        "v_cache.shape[:-1] = ",
        "cache_seqlens = -1, must be in 0..",
    ]
    assert text.startswith("invalid request, 5 rules broken:") and all(line in text for line in lines), text
    table = torch.zeros(BATCH, 2, dtype=torch.int32)
    pages = dict(page_table=table, cache_seqlens=5)
    for tensors, options, part in (
        ((q[0], k, v), {}, "q.shape = (2, 3, 64), must have 4 dimensions"),
        ((q, k[:1], v), {}, "k_cache.shape[0] = 1, must be 2 = batch of q"),
        ((q, k, v), dict(cache_seqlens=torch.zeros(3, dtype=torch.int32)), "must be a number, or (batch) of torch.int32"),
        ((q, k, v), dict(cache_seqlens=torch.zeros(BATCH)), "cache_seqlens = (2,) of torch.float32"),
        ((q, k, v), dict(cache_seqlens=torch.tensor([0, 99], dtype=torch.int32)), "cache_seqlens = [0, 99], must be in 0.."),
        ((q, k, v), dict(cache_seqlens="all"), "cache_seqlens = 'all', must be a number"),
        ((q, k, v), dict(page_table=table), "cache_seqlens = None, must be given with page_table"),
        ((q, k, v), {**pages, "page_table": [1]}, "page_table = [1], must be a PyTorch tensor"),
        ((q, k, v), {**pages, "page_table": table.long()}, "page_table = (2, 2) of torch.int64"),
        ((q, k, v), {**pages, "page_table": table + 9}, "page_table = pages that do not exist, must be in 0..1"),
        ((q, k, v), dict(sinks=torch.zeros(3)), "sinks = (3,) on cpu, must be (6,) on cpu = one per head of all ranks"),
        ((q, k, v), dict(softcap=-1.0), "softcap = -1.0, must be a finite number"),
        ((q, k.new_zeros(*k.shape[:3], 65)[..., :64], v), {}, "k_cache.stride() = "),
        ((q, k.float(), v), {}, "q, k_cache, v_cache = tensors of torch.float32, must be all float16 or all bfloat16"),
        (([1], k, v), {}, "q = [1], must be a PyTorch tensor"),
        ((q[..., :60], k[..., :60], v), {}, "head_dim = 60"),
        ((q[:, :, :1], torch.cat((k, k, k), 2)[:, :, :3], torch.cat((v, v, v), 2)[:, :, :3]), {}, "heads_kv = 3"),
    ):
        assert part in error_of(cp.decode, *tensors, group=group, **options), part


def test_errors_list_all_mistakes(pool: RankPool) -> None:
    pool.run(2, find_mistakes)


def differ(group: Any) -> list[str]:
    rank = dist.get_rank(group)
    (q, k, v), options = call_of(CASES["lengths"], rank, 3)
    return [
        error_of(cp.decode, q, k, v, group=group, **{**options, "softcap": float(rank == 1)}),
        error_of(cp.decode, q, k, v, group=group, **(options if rank else {"sinks": torch.zeros(HEADS)})),
        error_of(cp.decode, q, k, v, group=group, **({"cache_seqlens": 1000} if rank == 2 else options)),
    ]


def test_every_rank_names_the_one_with_other_options(pool: RankPool) -> None:
    for rank, texts in enumerate(pool.run(3, differ)):
        assert "softcap of rank 1 = 1.0, must equal rank 0's, 0.0" in texts[0]
        assert all(f"has_lengths of rank {other} = True, must equal rank 0's, False" in texts[1] for other in (1, 2))
        assert "sinks of rank 2 = False, must equal rank 0's, True" in texts[1]
        assert "cache_seqlens = 1000, must be in 0..32" in texts[2] and (rank == 2) != ('request of rank 2 = "' in texts[2])


def test_without_a_group() -> None:
    x = random(1, 16, 2, 32)
    assert "torch.distributed.init_process_group()" in error_of(cp.decode, x, x, x)
