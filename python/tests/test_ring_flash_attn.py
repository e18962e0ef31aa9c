"""fa2.ring_flash_attn: signatures, and results of ranks that are processes of gloo, on the interpreter."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import torch.distributed as dist  # noqa: E402
from fa2 import context_parallel as cp  # noqa: E402
from fa2 import ring_flash_attn as rfa  # noqa: E402
from rank_pool import RankPool  # noqa: E402
from shard_inputs import random, worst  # noqa: E402

TOKENS = 96
DOCUMENTS = [0, 24, 96]  # whose lengths are multiples of 2 * ranks, for 2 and 3 ranks
TAIL = (
    "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), alibi_slopes=None, deterministic=False, "
    "return_attn_probs=False, group=None"
)
LLAMA3 = "cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, heads_k_stride, local_k_slice, "
FORMS = {"": "q, k, v, ", "kvpacked_": "q, kv, ", "qkvpacked_": "qkv, "}
SIGNATURES = {
    f"{family}_{form}func": first + tables + TAIL
    for family, tables in (
        ("ring_flash_attn", ""),
        ("ring_flash_attn_varlen", "cu_seqlens, max_seqlen, "),
        ("zigzag_ring_flash_attn", ""),
        ("zigzag_ring_flash_attn_varlen", "cu_seqlens, max_seqlen, "),
        ("llama3_flash_attn_varlen", LLAMA3),
    )
    for form, first in FORMS.items()
}
SIGNATURES["llama3_flash_attn_prepare_cu_seqlens"] = "cu_seqlens, causal, rank, world_size"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    parameters = inspect.signature(getattr(rfa, name)).parameters.values()
    assert ", ".join(x.name if x.default is x.empty else f"{x.name}={x.default}" for x in parameters) == SIGNATURES[name]


def test_all_names_exist() -> None:
    stripes = {f"stripe_flash_attn_{kind}{form}func" for kind in ("", "varlen_") for form in FORMS}
    assert set(rfa.__all__) == set(SIGNATURES) | stripes
    for name in stripes:
        with pytest.raises(NotImplementedError, match=f"{name}.*zigzag_ring_flash_attn"):
            getattr(rfa, name)(None)


def test_prepared_tables() -> None:
    prepare, table = rfa.llama3_flash_attn_prepare_cu_seqlens, torch.tensor([0, 7, 14, 16], dtype=torch.int32)
    queries, keys, longest_q, longest_k, chosen = prepare(table, True, 0, 2)
    assert (queries.tolist(), keys.tolist(), longest_q, longest_k, chosen) == ([0, 7, 8], [0, 7, 8], 7, 7, slice(0, 8))
    queries, keys, longest_q, longest_k, chosen = prepare(table, True, 1, 2)
    assert (queries.tolist(), keys.tolist(), longest_q, longest_k, chosen) == ([0, 6, 8], [0, 7, 9], 6, 7, slice(7, 16))
    assert queries.dtype == torch.int32
    queries, keys, _, longest_k, chosen = prepare(table, False, 0, 2)
    assert (queries.tolist(), keys.tolist(), longest_k, chosen) == ([0, 7, 8], [0, 7, 14], 7, slice(0, 14))
    with pytest.raises(fa2.InvalidRequest, match="must be a multiple of world_size = 3"):
        prepare(table, True, 0, 3)


def dense(group: Any, family: str, form: str, options: dict[str, Any], backward: bool) -> None:
    ranks = dist.get_world_size(group)
    make = cp.Layout.zigzag if family.startswith("zigzag") else cp.Layout.contiguous
    run_family(group, getattr(rfa, f"{family}_{form}func"), make(TOKENS, ranks, 1), (), options, form, backward)


def packed(group: Any, family: str, form: str, options: dict[str, Any], backward: bool) -> None:
    ranks = dist.get_world_size(group)
    pieces = zip(DOCUMENTS, DOCUMENTS[1:])
    if family.startswith("zigzag"):
        layout = cp.Layout.zigzag(TOKENS, ranks, 1, DOCUMENTS)
    else:
        shares = [(begin, (end - begin) // ranks) for begin, end in pieces]
        of = [[(begin + rank * share, begin + (rank + 1) * share) for begin, share in shares] for rank in range(ranks)]
        layout = cp.Layout.of_slices(TOKENS, of, DOCUMENTS)
    tables = torch.tensor(DOCUMENTS, dtype=torch.int32) // ranks, 72 // ranks
    run_family(group, getattr(rfa, f"{family}_varlen_{form}func"), layout, tables, options, form, backward)


def llama3(group: Any, form: str, keeps_table: bool, options: dict[str, Any], backward: bool) -> None:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    table = torch.tensor([0, 10, 50, 96], dtype=torch.int32)
    tables = rfa.llama3_flash_attn_prepare_cu_seqlens(table, True, rank, ranks)
    if not keeps_table:
        tables = (tables[0].clone(), *tables[1:])
    tables = (*tables[:4], 1, tables[4])
    layout = cp.Layout.contiguous(TOKENS, ranks, 1, table)
    run_family(group, getattr(rfa, f"llama3_flash_attn_varlen_{form}func"), layout, tables, options, form, backward)


def run_family(
    group: Any, function: Any, layout: cp.Layout, tables: tuple[Any, ...], options: dict[str, Any], form: str, backward: bool
) -> None:
    """Compares a function on the group's ranks with fa2.attention() of all tokens."""
    borders, dim = layout.cu_seqlens, 0 if layout.cu_seqlens else 1
    heads = 4 if form == "qkvpacked_" else 2
    whole = [random(1, TOKENS, n, 32, seed=seed) for seed, n in enumerate((4, heads, heads, 4))]
    whole = [x[0] if borders else x for x in whole]
    *qkv, d_out = (cp.shard(x, layout, group=group, dim=dim).requires_grad_(backward) for x in whole)
    alone = {"": 3, "kvpacked_": 1, "qkvpacked_": 0}[form]
    leaves = [*qkv[:alone], *([torch.stack(qkv[alone:], -3).detach()] if form else [])]
    leaves = [x.requires_grad_(backward) for x in leaves]
    out, lse, none = function(*leaves, *tables, **options, return_attn_probs=True, group=group)
    given = dict(options)
    if borders:
        table = torch.tensor(borders, dtype=torch.int32)
        given.update(cu_seqlens_q=table, cu_seqlens_k=table, max_seqlen_q=TOKENS, max_seqlen_k=TOKENS)
    exact = [x.clone().requires_grad_(backward) for x in whole[:3]]
    expected, expected_lse = fa2.attention(*exact, return_lse=True, **given)
    assert none is None and worst(out, cp.shard(expected, layout, group=group, dim=dim)) < 1.6e-2
    assert worst(lse, cp.shard(expected_lse, layout, group=group, dim=-1)) < 1e-4
    if not backward:
        return
    found = torch.autograd.grad(out, leaves, d_out.detach())
    parts = [x for leaf, x in zip(leaves, found) for x in (x.unbind(-3) if leaf.ndim > dim + 3 else (x,))]
    for a, b in zip(parts, torch.autograd.grad(expected, exact, whole[3])):
        b = cp.shard(b, layout, group=group, dim=dim)
        assert worst(a, b) < 2e-2 * max(1.0, float(b.abs().max()))


CAUSAL: dict[str, Any] = dict(causal=True)
WINDOW: dict[str, Any] = dict(causal=True, window_size=(20, 0))


@pytest.mark.parametrize("family", ["ring_flash_attn", "zigzag_ring_flash_attn"])
def test_dense_and_varlen(pool: RankPool, family: str) -> None:
    pool.run(3, dense, family, "", WINDOW, False)
    pool.run(2, dense, family, "kvpacked_", CAUSAL, False)
    pool.run(2, dense, family, "qkvpacked_", {}, False)
    pool.run(3, packed, family, "", CAUSAL, False)
    pool.run(2, packed, family, "kvpacked_", WINDOW, False)
    pool.run(2, packed, family, "qkvpacked_", CAUSAL, False)


def test_llama3(pool: RankPool) -> None:
    pool.run(3, llama3, "", True, CAUSAL, False)
    pool.run(2, llama3, "kvpacked_", False, WINDOW, False)
    pool.run(2, llama3, "qkvpacked_", True, CAUSAL, False)


def test_gradients_of_one_rank(pool: RankPool) -> None:
    pool.run(1, dense, "ring_flash_attn", "", CAUSAL, True)
    pool.run(1, dense, "zigzag_ring_flash_attn", "qkvpacked_", CAUSAL, True)
    pool.run(1, packed, "zigzag_ring_flash_attn", "kvpacked_", CAUSAL, True)
    pool.run(1, llama3, "qkvpacked_", True, CAUSAL, True)


@pytest.mark.parametrize("ranks", [2, 3])
def test_gradients(pool: RankPool, ranks: int) -> None:
    for form in FORMS:
        pool.run(ranks, dense, "zigzag_ring_flash_attn", form, WINDOW, True)
    pool.run(ranks, dense, "ring_flash_attn", "", CAUSAL, True)
    pool.run(ranks, packed, "zigzag_ring_flash_attn", "", CAUSAL, True)
    pool.run(ranks, packed, "ring_flash_attn", "kvpacked_", CAUSAL, True)
    pool.run(ranks, llama3, "", True, CAUSAL, True)


def refuse(group: Any) -> None:
    q = random(32, 4, 32)
    for function, tables, text in (
        (rfa.zigzag_ring_flash_attn_varlen_func, ([0, 5, 32], 27), "must be even: pad documents"),
        (rfa.llama3_flash_attn_varlen_func, ([0, 32], [0, 32], 32, 32, 3, slice(0, 32)), "heads_k_stride = 3, must divide 4"),
    ):
        with pytest.raises(fa2.InvalidRequest) as raised:
            function(q, q, q, *tables, causal=True, group=group)
        assert text in str(raised.value)


def test_what_is_wrong(pool: RankPool) -> None:
    pool.run(2, refuse)
