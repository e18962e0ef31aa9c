"""Tests functions of scores on a GPU beside FlexAttention, which computes them in float64 without kernels of its own. `pytest -m gpu`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
flex = pytest.importorskip("torch.nn.attention.flex_attention")

import fa2  # noqa: E402
import score_reference  # noqa: E402

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
BATCH, HEADS, LENGTH = 2, 4, 512
Function = Callable[..., Any]


def tables(*shape: int, scale: float = 0.2, dtype: Any = None) -> Any:
    torch.manual_seed(len(shape) + shape[0])
    return (torch.randn(shape) * scale).to(device=DEVICE, dtype=dtype or torch.float16)


def learned_alibi() -> Function:
    slopes = torch.exp2(-torch.arange(1, HEADS + 1)).to(DEVICE)
    return lambda s, b, h, q, k: s + (k - q) * slopes[h]


def relative_table() -> Function:
    table = tables(2 * LENGTH - 1)
    return lambda s, b, h, q, k: s + table[k - q + LENGTH - 1]


def wrapped_table() -> Function:
    table = tables(HEADS, 2 * LENGTH, dtype=torch.bfloat16)
    return lambda s, b, h, q, k: s + table[h, q - k]


def head_scale() -> Function:
    scales = tables(HEADS).abs() + 0.5
    return lambda s, b, h, q, k: s * scales[h]


def batch_bias() -> Function:
    bias = tables(BATCH)
    return lambda s, b, h, q, k: s + bias[b]


def batch_and_head_bias() -> Function:
    bias = tables(BATCH, HEADS, scale=0.5, dtype=torch.float32)
    return lambda s, b, h, q, k: s + bias[b, h]


def four_tables() -> Function:
    of_head, of_query, of_key, of_batch = tables(HEADS), tables(LENGTH), tables(LENGTH + 1)[1:], tables(BATCH)
    return lambda s, b, h, q, k: s + of_head[h] + of_query[q] - of_key[k] + of_batch[b]


def strided_view() -> Function:
    view = tables(HEADS, 2)[:, 0]
    return lambda s, b, h, q, k: s + view[h]


def masked_matrix() -> Function:
    bias = tables(LENGTH, LENGTH, dtype=torch.float32)
    bias[torch.rand(LENGTH, LENGTH, device=DEVICE) < 0.5] = -math.inf
    bias[:, 0] = 0
    return lambda s, b, h, q, k: s + bias[q, k]


def number_on_the_host() -> Function:
    gain = torch.tensor(0.75)
    return lambda s, b, h, q, k: s * gain


#: By names: functions, or what makes them, which needs a GPU.
SCORE_MODS: dict[str, Any] = {
    "unchanged": lambda: lambda s, b, h, q, k: s,
    "doubled": lambda: lambda s, b, h, q, k: s * 2,
    "causal": lambda: lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")),
    "distance": lambda: lambda s, b, h, q, k: s + (q - k),
    "squared": lambda: lambda s, b, h, q, k: s * s,
    "softcap": lambda: lambda s, b, h, q, k: 5 * torch.tanh(s / 5),
    "softcap_and_bias": lambda: lambda s, b, h, q, k: 5 * torch.tanh(s / 5) + 0.01 * k,
    "head_offset": lambda: lambda s, b, h, q, k: s + h * 0.1,
    "decay": lambda: lambda s, b, h, q, k: s / (1 + (q - k) * (q - k) * 0.0001),
    "waves": lambda: lambda s, b, h, q, k: torch.sin(s * 0.5) + torch.cos(k * 0.1) * 0.3,
    "learned_alibi": learned_alibi,
    "relative_table": relative_table,
    "wrapped_table": wrapped_table,
    "head_scale": head_scale,
    "batch_bias": batch_bias,
    "batch_and_head_bias": batch_and_head_bias,
    "four_tables": four_tables,
    "strided_view": strided_view,
    "masked_matrix": masked_matrix,
    "number_on_the_host": number_on_the_host,
}


def documents() -> Function:
    ids = torch.stack([torch.arange(LENGTH) // 100, torch.arange(LENGTH) // 37]).to(DEVICE)
    return lambda b, h, q, k: ids[b, q // 2] == ids[b, k]


def packed_causal() -> Function:
    ids = (torch.arange(LENGTH) // 150).to(DEVICE, torch.int32)
    return lambda b, h, q, k: (ids[q] == ids[k]) & (q >= k)


def prefixes() -> Function:
    lengths = torch.tensor([64, 301], dtype=torch.int32, device=DEVICE)
    return lambda b, h, q, k: (k < lengths[b]) | (q >= k)


def windows_of_heads() -> Function:
    windows = torch.tensor([16, 64, 200, 512], device=DEVICE)
    return lambda b, h, q, k: (q >= k) & (q - k < windows[h])


def offset_of_a_number() -> Function:
    offset = torch.tensor(5, dtype=torch.int32, device=DEVICE)
    return lambda b, h, q, k: q + offset >= k


def boolean_matrix() -> Function:
    shown = torch.rand(LENGTH, LENGTH, device=DEVICE) < 0.2
    shown[:, 7] = True
    return lambda b, h, q, k: shown[q, k]


def sums_of_tables() -> Function:
    of_head, of_batch = tables(HEADS, 3)[:, 1], tables(BATCH)
    return lambda b, h, q, k: (q >= k) | ((of_head[h] + of_batch[b]).to(torch.float32) > 0)


MASK_MODS: dict[str, Any] = {
    "causal": lambda: lambda b, h, q, k: q >= k,
    "window": lambda: lambda b, h, q, k: (q >= k) & (q - k < 100),
    "sinks_and_window": lambda: lambda b, h, q, k: (q >= k) & ((q - k < 100) | (k < 4)),
    "dilated": lambda: lambda b, h, q, k: (q >= k) & ((q - k) % 3 == 0),
    "chunks": lambda: lambda b, h, q, k: (q // 128 == k // 128) & (q >= k),
    "axial": lambda: lambda b, h, q, k: (q // 16 == k // 16) | (q % 16 == k % 16),
    "pattern": lambda: lambda b, h, q, k: ((q ^ k) & 3) != 1,
    "no_key_for_some": lambda: lambda b, h, q, k: (q % 5 != 2) & (q >= k),
    "documents": documents,
    "packed_causal": packed_causal,
    "prefixes": prefixes,
    "windows_of_heads": windows_of_heads,
    "offset_of_a_number": offset_of_a_number,
    "boolean_matrix": boolean_matrix,
    "sums_of_tables": sums_of_tables,
}


def qkv(queries: int = LENGTH, keys: int = LENGTH, head_dim: int = 64, heads_kv: int = HEADS, dtype: Any = torch.float16, grad: bool = True) -> Any:
    torch.manual_seed(head_dim)
    shapes = ((BATCH, HEADS, queries, head_dim), (BATCH, heads_kv, keys, head_dim), (BATCH, heads_kv, keys, head_dim))
    return [torch.randn(shape, device=DEVICE).to(dtype).requires_grad_(grad) for shape in shapes]


def compare(tensors: Any, score_mod: Function | None, mask_mod: Function | None) -> None:
    """Compares results and gradients with those of FlexAttention in float64."""
    torch._dynamo.reset()  # FlexAttention compiles each function, and Dynamo counts them
    q, k, _ = tensors
    gqa = q.shape[1] != k.shape[1]
    sizes = (BATCH, HEADS, q.shape[2], k.shape[2])
    found = [None, None] if mask_mod is None else [module.create_block_mask(mask_mod, *sizes, device=DEVICE) for module in (fa2, flex)]
    out, aux = fa2.flex_attention(*tensors, score_mod, found[0], enable_gqa=gqa, return_aux=fa2.AuxRequest(lse=True))
    exact = [x.detach().double().requires_grad_() for x in tensors]
    wanted, wanted_aux = flex.flex_attention(*exact, score_mod, found[1], enable_gqa=gqa, return_aux=flex.AuxRequest(lse=True))
    limit = 2e-3 if q.dtype == torch.float16 else 1.6e-2
    assert score_reference.error(out, wanted) < limit
    seen = torch.isfinite(wanted_aux.lse)
    assert torch.equal(torch.isfinite(aux.lse), seen)
    assert score_reference.error(aux.lse[seen], wanted_aux.lse[seen]) < 1e-3
    d_out = torch.randn_like(out)
    gradients = torch.autograd.grad(out, tensors, d_out)
    for a, b in zip(gradients, torch.autograd.grad(wanted, exact, d_out.double())):
        assert score_reference.error(a, b) < 4 * limit


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("name", SCORE_MODS)
def test_score_mods(name: str, head_dim: int) -> None:
    compare(qkv(head_dim=head_dim), SCORE_MODS[name](), None)


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("name", MASK_MODS)
def test_mask_mods(name: str, head_dim: int) -> None:
    compare(qkv(head_dim=head_dim), None, MASK_MODS[name]())


@pytest.mark.parametrize(("queries", "keys"), [(127, 127), (255, 511), (383, 130), (1, 512), (64, 512)])
def test_lengths(queries: int, keys: int) -> None:
    compare(qkv(queries, keys), four_tables(), prefixes())
    compare(qkv(queries, keys, heads_kv=1), SCORE_MODS["causal"](), None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("head_dim", [32, 96, 192, 256])
def test_head_dims_and_groups(head_dim: int, dtype: Any) -> None:
    compare(qkv(head_dim=head_dim, heads_kv=2, dtype=dtype), wrapped_table(), windows_of_heads())


def test_functions_follow_each_other_and_causal() -> None:
    q, k, v = (x.transpose(1, 2) for x in qkv())
    table = tables(HEADS, LENGTH)

    def bias(b: Any, h: Any, q: Any, k: Any) -> Any:
        return table[h, k]

    def score_mod(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return torch.tanh(s) * 3

    def mask_mod(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (k % 3 != 1) & (k <= q)

    out = fa2.attention(q, k, v, bias=bias, score_mod=score_mod, mask_mod=lambda b, h, q, k: k % 3 != 1, causal=True)
    expected, _ = score_reference.attention(q, k, v, bias=bias, score_mod=score_mod, mask_mod=mask_mod)
    assert score_reference.error(out, expected) < 2e-3


def test_blocks_of_pytorch() -> None:
    torch.manual_seed(0)
    shown = torch.rand(BATCH, 1, 4, 4, device=DEVICE) < 0.5
    counts = shown.sum(-1).int()
    indices = torch.argsort(shown.int(), dim=-1, descending=True, stable=True).int()
    block_mask = flex.BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=128, mask_mod=lambda b, h, q, k: (q + k) % 3 != 0)
    dense = shown.repeat_interleave(128, -2).repeat_interleave(128, -1)
    tensors = qkv(grad=False)
    out = fa2.flex_attention(*tensors, block_mask=block_mask)
    swapped = (x.transpose(1, 2) for x in tensors)
    expected, _ = score_reference.attention(*swapped, mask_mod=lambda b, h, q, k: dense & ((q + k) % 3 != 0))
    assert score_reference.error(out, expected.transpose(1, 2)) < 2e-3


def test_a_graph_reads_what_captures_hold_at_its_replay() -> None:
    tensors = qkv(grad=False)
    table, ids = tables(HEADS, LENGTH), torch.zeros(LENGTH, dtype=torch.int32, device=DEVICE)
    functions: dict[str, Any] = dict(score_mod=lambda s, b, h, q, k: s + table[h, k], mask_mod=lambda b, h, q, k: ids[q] == ids[k])
    fa2.attention(*tensors, layout="bhsd", **functions)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fa2.attention(*tensors, layout="bhsd", **functions)
    for step in (3, 50):
        table.normal_()
        ids.copy_(torch.arange(LENGTH, device=DEVICE) // step)
        graph.replay()
        assert torch.equal(out, fa2.attention(*tensors, layout="bhsd", **functions))


def test_compiled_by_inductor() -> None:
    torch._dynamo.reset()
    text = fa2.ScoreText("return gain() * table(at.head, at.key);", {"table": tables(HEADS, LENGTH), "gain": 0.5})

    def step(q: Any, k: Any, v: Any) -> Any:
        return fa2.attention(q * 1.0, k, v, bias=text, layout="bhsd").sin()

    tensors = qkv()
    out = torch.compile(step, fullgraph=True)(*tensors)
    plain = step(*tensors)
    assert score_reference.error(out, plain) < 2e-3
    for a, b in zip(torch.autograd.grad(out.sum(), tensors), torch.autograd.grad(plain.sum(), tensors)):
        assert score_reference.error(a, b) < 1e-2


def test_captures_lie_on_the_device_of_q() -> None:
    host = torch.ones(LENGTH)
    with pytest.raises(fa2.InvalidRequest, match=r"captures\.c0\.device = cpu, must be cuda:0, as q: move it there"):
        fa2.attention(*qkv(grad=False), bias=lambda b, h, q, k: host[k], layout="bhsd")


def test_explain_and_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FA2_TUNE_BUDGET_MS", "200")
    tensors = qkv(grad=False)
    bias = lambda b, h, q, k: (q - k) % 3 * 0.5  # noqa: E731
    for backward in (False, True):
        found = fa2.explain(*tensors, bias=bias, layout="bhsd", backward=backward)
        assert "remainder" in found["texts"]["bias"]
    assert fa2.tune(*tensors, bias=bias, layout="bhsd")


def test_maps_of_calls_leave_the_counters_of_split_keys_alone() -> None:
    """Both calls use the memory that the stream keeps."""
    torch.manual_seed(3)
    ids = torch.arange(4096, device=DEVICE, dtype=torch.int32) // 300
    q, k, v = (torch.randn(1, 4096, 4, 64, device=DEVICE, dtype=torch.float16) for _ in range(3))
    one = torch.randn(4, 1, 32, 64, device=DEVICE, dtype=torch.float16)
    keys, values = (torch.randn(4, 8192, 8, 64, device=DEVICE, dtype=torch.float16) for _ in range(2))
    first = fa2.attention(one, keys, values)
    for _ in range(3):
        fa2.attention(q, k, v, mask_mod=fa2.ScoreText("return ids(at.query) == ids(at.key);", {"ids": ids}))
        assert torch.equal(fa2.attention(one, keys, values), first)
