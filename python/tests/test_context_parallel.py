"""fa2.context_parallel: layouts, shards, and attention over ranks that are processes of gloo, on the interpreter."""

from __future__ import annotations

import functools
import pathlib
import pickle
import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import torch.distributed as dist  # noqa: E402
from fa2 import context_parallel as cp  # noqa: E402
from rank_pool import RankPool  # noqa: E402
from shard_inputs import random, worst  # noqa: E402

TOKENS = 96
DOCUMENTS = [0, 10, 44, 96]
HEADS, HEADS_KV, DIM = 4, 2, 64


def qkv(packed: bool = False, dtype: Any = torch.bfloat16) -> tuple[Any, ...]:
    """Returns tensors of all tokens."""
    made = (random(2, TOKENS, heads, DIM, dtype=dtype, seed=seed) for seed, heads in enumerate((HEADS, HEADS_KV, HEADS_KV)))
    return tuple(x[0] for x in made) if packed else tuple(made)


# ---- layouts and shards ----


def test_layouts() -> None:
    zigzag = cp.Layout.zigzag(16, 2, 2)
    assert zigzag.ranks == (((0, 4), (12, 16)), ((4, 12),)) and zigzag.slices(1) == ((4, 12),)
    assert [zigzag.tokens_of(rank) for rank in range(2)] == [8, 8]
    assert cp.Layout.contiguous(10, 3, 1).ranks == (((0, 3),), ((3, 6),), ((6, 10),))
    documents = cp.Layout.zigzag(12, 2, 1, cu_seqlens=[0, 4, 12])
    assert documents.ranks == (((0, 1), (3, 6), (10, 12)), ((1, 3), (6, 10))) and documents.cu_seqlens == (0, 4, 12)
    assert documents == cp.Layout.of_slices(12, documents.ranks, torch.tensor([0, 4, 12])) != zigzag
    assert hash(documents) == hash(pickle.loads(pickle.dumps(documents)))
    assert repr(documents) == "<Layout of 12 tokens: 0 [0, 1) [3, 6) [10, 12); 1 [1, 3) [6, 10); documents end at 4, 12>"


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: cp.Layout.zigzag(8, 0), "ranks = 0"),
        (lambda: cp.Layout.of_slices(8, [[(0, 4)], [(5, 8)]]), "4"),
        (lambda: cp.Layout.zigzag(8, 2, 1, [0, 5]), "5"),
        (lambda: cp.Layout.contiguous(8, 2, 1, [1, 8]), "must ascend from 0"),
        (lambda: cp.Layout.contiguous(8, 2).slices(2), "rank = 2, must be in 0..1"),
        (lambda: cp.shard(torch.zeros(2, 9), cp.Layout.zigzag(8, 2, 1), 0), "tensor.shape[1] = 9, must be 8"),
    ],
)
def test_wrong_layouts(make: Any, text: str) -> None:
    with pytest.raises(fa2.InvalidRequest) as raised:
        make()
    assert text in str(raised.value)
    with pytest.raises(AttributeError):
        cp.Layout.zigzag(8, 2).tokens = 9


def test_positions_and_labels_are_of_documents() -> None:
    layout = cp.Layout.zigzag(12, 2, 1, cu_seqlens=[0, 4, 12])
    assert cp.positions(layout, 0).tolist() == [0, 3, 0, 1, 6, 7]
    assert cp.positions(layout, 1).tolist() == [1, 2, 2, 3, 4, 5]
    labels = torch.arange(12)
    assert cp.shift_labels(labels, layout, 0).tolist() == [1, -100, 5, 6, 11, -100]
    assert cp.shift_labels(labels[None].repeat(2, 1), layout, 1, -1)[1].tolist() == [2, 3, 7, 8, 9, 10]
    plain = cp.Layout.zigzag(8, 2, 1)
    assert cp.shift_labels(labels[:8], plain, 0).tolist() == [1, 2, 7, -100] and cp.positions(plain, 0).tolist() == [0, 1, 6, 7]
    assert labels.tolist() == list(range(12))


def shards_return(group: Any) -> None:
    empty = cp.Layout.of_slices(10, [[(2, 7)], [(0, 2), (7, 10)], []])
    for layout in (cp.Layout.zigzag(50, 3, 4), empty):
        for dtype in (torch.bfloat16, torch.int64, torch.bool):
            whole = torch.arange(2 * layout.tokens * 3).view(2, layout.tokens, 3).to(dtype)
            assert torch.equal(cp.unshard(cp.shard(whole, layout, group=group), layout, group=group), whole)
        labels = torch.arange(layout.tokens)
        assert torch.equal(cp.unshard(cp.shard(labels, layout, group=group, dim=0), layout, group=group, dim=-1), labels)


def test_unshard_undoes_shard(pool: RankPool) -> None:
    pool.run(3, shards_return)


# ---- attention ----

CASES: dict[str, dict[str, Any]] = {
    "causal": dict(causal=True),
    "causal, no Layout": dict(causal=True, layout="zigzag"),
    "window, contiguous": dict(causal=True, window_size=(20, -1), layout="contiguous"),
    "no mask, two groups": dict(groups=2, scheme="gather_heads"),
    "alibi, softcap, sinks": dict(causal=True, softcap=3.0, alibi_slopes=2.0 ** -torch.arange(1.0, 5), sinks=torch.arange(4.0)),
    "documents": dict(causal=True, cu_seqlens=DOCUMENTS),
    "dropout": dict(causal=True, dropout_p=0.25, dropout_seed=5, dropout_offset=8),
    "by heads, on two ranks": dict(causal=True, window_size=(40, -1), scheme="all_to_all"),
    "in stages": dict(causal=True, window_size=(40, -1), sinks=torch.arange(4.0), scheme="staged"),
    "documents, in stages": dict(causal=True, cu_seqlens=DOCUMENTS, scheme="staged"),
    "a rank without tokens": dict(causal=True, layout=None),
}


def layout_of(options: dict[str, Any], ranks: int) -> cp.Layout:
    """Returns the Layout that a case means. All of its chunks begin at multiples of 16, but those of documents."""
    name, borders = options.get("layout", "16"), options.get("cu_seqlens")
    if name is None:
        return cp.Layout.of_slices(TOKENS, [[(0, 16), (80, 96)], [(16, 80)]] + [[]] * (ranks - 2))
    make = cp.Layout.contiguous if name == "contiguous" else cp.Layout.zigzag
    return make(TOKENS, ranks, 1 if isinstance(name, str) and name != "16" or borders else 16, borders)


def on_one_rank(q: Any, k: Any, v: Any, options: dict[str, Any]) -> Any:
    """Returns (out, lse) of fa2.attention() with a case's options."""
    given = {name: x for name, x in options.items() if name not in ("layout", "scheme", "groups", "dropout_seed", "dropout_offset")}
    if (borders := given.pop("cu_seqlens", None)) is not None:
        table = torch.tensor(borders, dtype=torch.int32)
        given.update(cu_seqlens_q=table, cu_seqlens_k=table, max_seqlen_q=TOKENS, max_seqlen_k=TOKENS)
    if "dropout_seed" in options:
        given["dropout_state"] = torch.tensor([options["dropout_seed"], options["dropout_offset"]])
    return fa2.attention(q, k, v, return_lse=True, **given)


def attend_sharded(group: Any, name: str, dtype: Any) -> None:
    options = CASES[name]
    layout = layout_of(options, dist.get_world_size(group))
    packed = "cu_seqlens" in options
    dim = 0 if packed else 1
    whole = qkv(packed, dtype)
    given = options if isinstance(options.get("layout"), str) else {**options, "layout": layout}
    mine = [cp.shard(x, layout, group=group, dim=dim) for x in whole]
    out, lse = cp.attention(*mine, group=group, return_lse=True, **given)
    expected, expected_lse = (cp.shard(x, layout, group=group, dim=at) for x, at in zip(on_one_rank(*whole, options), (dim, -1)))
    assert out.shape == expected.shape and out.dtype == dtype
    if out.numel():
        assert worst(out, expected) < 1.6e-2 and worst(lse, expected_lse) < 1e-4
    if set(options) == {"causal"}:
        heads = (x.float().transpose(1, 2) for x in whole)
        exact = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True).transpose(1, 2)
        assert worst(out, cp.shard(exact, layout, group=group)) < 2e-2


@pytest.mark.parametrize("name", CASES)
def test_attention_is_that_of_one_rank(pool: RankPool, name: str) -> None:
    pool.run(2 if name.endswith("on two ranks") else 3, attend_sharded, name, torch.bfloat16)


def test_two_ranks_and_float16(pool: RankPool) -> None:
    pool.run(2, attend_sharded, "causal", torch.float16)


def drop_randomly(group: Any) -> None:
    torch.manual_seed(100 + dist.get_rank(group))
    layout = cp.Layout.zigzag(TOKENS, 2, 16)
    q, k, v = (cp.shard(x, layout, group=group) for x in qkv())
    out = [cp.attention(q, k, v, group=group, layout=layout, dropout_p=0.5) for _ in range(2)]
    torch.manual_seed(100)
    state = torch.randint(2**62, (2,))
    expected = fa2.attention(*qkv(), dropout_p=0.5, dropout_state=state)
    assert worst(out[0], cp.shard(expected, layout, group=group)) < 1.6e-2 and worst(out[0], out[1]) > 0.1


def test_dropout_draws_from_the_first_ranks_generator(pool: RankPool) -> None:
    pool.run(2, drop_randomly)


def run_a_plan(group: Any) -> list[dict[str, Any]]:
    layout = cp.Layout.zigzag(TOKENS, 2, 16)
    mine = [cp.shard(x, layout, group=group) for x in qkv()]
    prepared = cp.plan(*mine, group=group, layout=layout, causal=True)
    assert torch.equal(prepared.run(*mine), cp.attention(*mine, group=group, layout=layout, causal=True))
    with pytest.raises(fa2.InvalidRequest, match="must be like the plan's"):
        prepared.run(*(x[:1] for x in mine))
    with pytest.raises(fa2.InvalidRequest, match="pass gradients=True"):
        prepared.run(mine[0].clone().requires_grad_(), *mine[1:])
    strided = [x.new_zeros(2, x.shape[1], x.shape[2], 2 * DIM)[..., 1::2].copy_(x) for x in mine]
    assert torch.equal(prepared.run(*strided), prepared.run(*mine)), "any strides"
    return [prepared.explain()]


def test_plans_explain(pool: RankPool) -> None:
    found = [x[0] for x in pool.run(2, run_a_plan)]
    assert [x["scheme"] for x in found] == ["gather_heads"] * 2 and [x["tokens"] for x in found] == [48, 48]
    # All keys but those behind its queries: rank 0 gets 48 tokens, rank 1 those before 72.
    assert sum(found[0]["received_bytes"]) == 48 * 2 * HEADS_KV * 2 * DIM * 2 == found[1]["sent_bytes"][0]


def run_the_page(group: Any, code: str) -> None:
    x, labels = random(1, 2 * TOKENS, 4, 32), torch.arange(2 * TOKENS)[None]
    names: dict[str, Any] = dict(dist=dist, x=x, labels=labels, project=lambda x, _: (x, x, x))
    exec(code, names)
    assert worst(names["whole"], fa2.attention(x, x, x, causal=True)) < 1.6e-2
    assert names["labels"].shape[1] == names["x"].shape[1]


def test_the_example_of_the_page_runs(pool: RankPool) -> None:
    page = (pathlib.Path(__file__).parents[2] / "docs/python.md").read_text().split("## Several GPUs")[1]
    pool.run(3, run_the_page, re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])


def run_compiled(group: Any) -> None:
    def block(q: Any, k: Any, v: Any) -> Any:
        return cp.attention(q + 0, k, v, group=group, causal=True) * 2

    made = [x.requires_grad_() for x in qkv()]
    expected, out = block(*made), torch.compile(block, backend="eager")(*made)
    assert torch.equal(out, expected)
    for a, b in zip(*(torch.autograd.grad(x.float().sum(), made) for x in (out, expected))):
        assert torch.equal(a, b)


def test_compiled_code_runs_it_outside_of_graphs(pool: RankPool) -> None:
    pool.run(1, run_compiled)


# ---- gradients ----


def differentiate(group: Any, options: dict[str, Any], layout: cp.Layout) -> None:
    packed = layout.cu_seqlens is not None
    dim = 0 if packed else 1
    whole = qkv(packed)
    d_out = random(*whole[0].shape, seed=9)
    d_lse = torch.linspace(-1, 1, layout.tokens)
    sinks = [options["sinks"]] if "sinks" in options else []
    rest = {name: x for name, x in options.items() if name != "sinks"}

    def run(attend: Any, q: Any, k: Any, v: Any, d_out: Any, d_lse: Any) -> Any:
        tensors = [x.detach().clone().requires_grad_() for x in (q, k, v, *sinks)]
        out, lse = attend(*tensors[:3], **({"sinks": tensors[3]} if sinks else {}))
        return torch.autograd.grad((out, lse), tensors, (d_out, d_lse.expand(lse.shape)))

    mine = [cp.shard(x, layout, group=group, dim=dim) for x in (*whole, d_out)]
    mine.append(cp.shard(d_lse, layout, group=group, dim=0))
    found = run(lambda *x, **y: cp.attention(*x, group=group, layout=layout, return_lse=True, **rest, **y), *mine)
    expected = run(lambda *x, **y: on_one_rank(*x, {**rest, **y, "cu_seqlens": layout.cu_seqlens}), *whole, d_out, d_lse)
    for a, b in zip(found[:3], expected):
        b = cp.shard(b, layout, group=group, dim=dim)
        assert a.dtype == b.dtype and worst(a, b) < 2e-2 * max(1.0, float(b.abs().max()))
    if sinks:
        d_sinks = found[3].clone()
        dist.all_reduce(d_sinks, group=group)
        assert worst(d_sinks, expected[3]) < 1e-3 * max(1.0, float(expected[3].abs().max()))


def test_gradients_of_one_rank(pool: RankPool) -> None:
    sinks = torch.arange(4.0) / 2
    pool.run(1, differentiate, dict(causal=True, sinks=sinks, deterministic=True), cp.Layout.contiguous(TOKENS, 1))


def test_gradients_by_heads(pool: RankPool) -> None:
    layout = cp.Layout.of_slices(TOKENS, [[(0, 10), (20, 30), (40, 96)], [(10, 20), (30, 40)]])
    pool.run(2, differentiate, dict(causal=True, sinks=torch.arange(4.0) / 2), layout)


def test_gradients_of_documents_that_ranks_hold_alone(pool: RankPool) -> None:
    layout = cp.Layout.of_slices(TOKENS, [[(0, 44)], [(44, 96)]], DOCUMENTS)
    pool.run(2, differentiate, dict(causal=True, scheme="local"), layout)


@pytest.mark.parametrize(
    "options, borders",
    [
        (dict(causal=True), None),
        (dict(causal=True, sinks=torch.arange(4.0) / 2, deterministic=True, groups=1), None),
        (dict(window_size=(20, 10), softcap=3.0), None),
        (dict(causal=True, dropout_p=0.25, dropout_seed=5, dropout_offset=8), None),
        (dict(causal=True), DOCUMENTS),
    ],
)
@pytest.mark.parametrize("ranks", [2, 3])
def test_gradients_across_ranks(pool: RankPool, ranks: int, options: dict[str, Any], borders: Any) -> None:
    pool.run(ranks, differentiate, options, cp.Layout.zigzag(TOKENS, ranks, 16 if borders is None else 1, borders))


# ---- errors ----


def error_of(function: Any, *arguments: Any, **options: Any) -> Any:
    with pytest.raises(fa2.Error) as raised:
        function(*arguments, **options)
    return raised.value


def differ(group: Any) -> list[str]:
    rank = dist.get_rank(group)
    layout = cp.Layout.zigzag(TOKENS, 3, 16)
    mine = [cp.shard(x, layout, group=group) for x in qkv()]
    made = [
        error_of(cp.attention, *mine, group=group, layout=layout, causal=rank != 1),
        error_of(cp.attention, *mine, group=group, layout=layout, groups=rank // 2 + 1, causal=True),
        error_of(cp.attention, *mine, group=group, layout=layout, causal="always" if rank == 2 else True),
        error_of(cp.attention, *mine, group=group, layout=layout, scheme="local"),
        error_of(cp.attention, *mine, group=group, layout=layout, softmax_scale=1.0 + rank // 2),
    ]
    assert all(isinstance(x, fa2.InvalidRequest) for x in made)
    return [str(x) for x in made]


def test_every_rank_names_the_one_with_other_options(pool: RankPool) -> None:
    for rank, texts in enumerate(pool.run(3, differ)):
        assert "1 rule broken:" in texts[0] and "causal of rank 1 = False, must equal rank 0's, bottom_right" in texts[0]
        assert "groups of rank 2 = 2, must equal rank 0's, 1" in texts[1]
        assert "causal = 'always', must be True" in texts[2] and (rank == 2) != ('request of rank 2 = "' in texts[2])
        assert "scheme = local, must not be local" in texts[3]
        assert "1 rule broken:" in texts[4] and "softmax_scale of rank 2 = 2.0, must equal rank 0's, 1.0" in texts[4]


def find_mistakes(group: Any) -> None:
    q, k, v = (x[:, :32] for x in qkv())
    both = str(error_of(cp.attention, q, k[..., :32], v[:, :, :1], group=group, window_size=(1,), scheme="ring", causal=7))
    expected = [
        "causal = 7, must be True, False",
        "window_size = (1,), must be (left, right)",
        "scheme = 'ring', must be \"automatic\"",
        "k.shape[-1] = 32, must be 64 = head_dim of q",
        "v.shape[-2] = 1, must be 2 = heads of k",
    ]
    assert both.startswith("invalid request, 5 rules broken:") and all(line in both for line in expected), both
    for options, text in (
        (dict(layout="ring"), "layout = 'ring', must be a Layout"),
        (dict(layout=cp.Layout.zigzag(TOKENS, 2, 8)), "layout.ranks = 2, must be 3 = ranks of the group"),
        (dict(layout=cp.Layout.contiguous(48, 3, 1)), "q.shape[-3] = 32, must be 16 = tokens of rank"),
        (dict(cu_seqlens=DOCUMENTS), "must be (tokens, heads, head_dim) with documents"),
        (dict(sinks=torch.zeros(3)), "sinks = (3,) on cpu, must be (4,)"),
        (dict(alibi_slopes=torch.zeros(4).half()), "must be (4,) or (2, 4) of float32"),
        (dict(sinks=[1.0]), "sinks = [1.0], must be a PyTorch tensor"),
        (dict(deterministic="no"), "deterministic = 'no', must be True or False"),
        (dict(groups=1.5), "groups = 1.5, must be an integer"),
    ):
        assert text in str(error_of(cp.attention, q, k, v, group=group, **options))
    assert "must be (batch, tokens, heads, head_dim)" in str(error_of(cp.attention, q[0, 0], k, v, group=group))
    assert "must be even" in str(error_of(cp.attention, *(x[:, :31] for x in (q, k, v)), group=group))
    for tensors in ((q, k.float(), v), (q.float(), k, v), ([1], k, v), (q.to_sparse(), k, v), (q.to("meta"), k, v)):
        assert isinstance(error_of(cp.attention, *tensors, group=group), fa2.InvalidType)
    wide = torch.zeros(1, 32, 2, 264, dtype=torch.float16)
    assert "gradients" in str(error_of(cp.attention, wide.clone().requires_grad_(), wide, wide, group=group))


def test_errors_list_all_mistakes_before_anything_is_exchanged(pool: RankPool) -> None:
    pool.run(3, find_mistakes)


def break_the_link(group: Any) -> None:
    layout = cp.Layout.zigzag(TOKENS, 2, 16)
    mine = [cp.shard(x, layout, group=group) for x in qkv()]
    prepared = cp.plan(*mine, group=group, layout=layout, causal=True)
    real = dist.batch_isend_irecv

    def broken(messages: Any) -> Any:
        raise OSError("no cable")

    dist.batch_isend_irecv = broken
    try:
        error = error_of(prepared.run, *mine)
    finally:
        dist.batch_isend_irecv = real
    assert isinstance(error, fa2.CommunicationError) and isinstance(error.__cause__, OSError)
    expected = cp.shard(fa2.attention(*qkv(), causal=True), layout, group=group)
    assert worst(prepared.run(*mine), expected) < 1.6e-2, "an exchange that never began leaves nothing behind"


def call_again(group: Any) -> None:
    call = functools.partial(cp.attention, *qkv(), group=group)
    first, again = call(causal=True, groups=1), call(causal=True, groups=1)
    assert torch.equal(first, again)
    with pytest.raises(fa2.InvalidRequest, match="groups = 1.0, must be an integer"):  # which equals 1
        call(causal=True, groups=1.0)
    assert worst(call(causal=False, groups=1), first) > 0.1


def test_a_call_like_an_earlier_one_is_checked_no_less(pool: RankPool) -> None:
    pool.run(1, call_again)


def test_errors_of_the_group_are_the_cause(pool: RankPool) -> None:
    pool.run(2, break_the_link)


def test_without_a_group() -> None:
    x = random(1, 16, 2, 32)
    assert "torch.distributed.init_process_group()" in str(error_of(cp.attention, x, x, x))
