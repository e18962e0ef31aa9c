"""ring-flash-attention's functions on fa2: `from fa2.ring_flash_attn import zigzag_ring_flash_attn_func`.

Arguments, shapes and return values are ring-flash-attention's: q, k, v and results are the rank's own tokens. Differences:

    group: PyTorch's process group; None: the default one. All ranks must call in the same order (fa2.context_parallel).
    ring, zigzag_ring: one gather by groups of heads (fa2.context_parallel), not a ring; zigzag also without causal.
    window_size, alibi_slopes: of positions among all tokens, as on one device.
    dropout_p: as on one device; numbers come from rank 0's generator.
    return_attn_probs: (out, softmax_lse, None). softmax_lse: float32 (batch, heads, tokens), or (heads, tokens) of packed sequences.
    cu_seqlens: read by the host once per tensor: pass the same tensor to all layers.
    max_seqlen: ignored.
    heads_k_stride: at most so many key/value heads are gathered at once; ignored with dropout.

Raises fa2.Error, a RuntimeError.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.weak import WeakTensorKeyDictionary

from . import _core
from ._communicator import group_of
from ._flash_call import read_window
from .context_parallel import Layout, attention

__all__ = [
    "llama3_flash_attn_prepare_cu_seqlens",
    "llama3_flash_attn_varlen_func",
    "llama3_flash_attn_varlen_kvpacked_func",
    "llama3_flash_attn_varlen_qkvpacked_func",
    "ring_flash_attn_func",
    "ring_flash_attn_kvpacked_func",
    "ring_flash_attn_qkvpacked_func",
    "ring_flash_attn_varlen_func",
    "ring_flash_attn_varlen_kvpacked_func",
    "ring_flash_attn_varlen_qkvpacked_func",
    "stripe_flash_attn_func",
    "stripe_flash_attn_kvpacked_func",
    "stripe_flash_attn_qkvpacked_func",
    "stripe_flash_attn_varlen_func",
    "stripe_flash_attn_varlen_kvpacked_func",
    "stripe_flash_attn_varlen_qkvpacked_func",
    "zigzag_ring_flash_attn_func",
    "zigzag_ring_flash_attn_kvpacked_func",
    "zigzag_ring_flash_attn_qkvpacked_func",
    "zigzag_ring_flash_attn_varlen_func",
    "zigzag_ring_flash_attn_varlen_kvpacked_func",
    "zigzag_ring_flash_attn_varlen_qkvpacked_func",
]

#: Versions and numbers of tables. Reading a table waits for the device, so each version is read once.
_numbers: Any = WeakTensorKeyDictionary()
_DOCUMENTS = "_fa2_cu_seqlens"  # an attribute of tables of llama3_flash_attn_prepare_cu_seqlens(): the global table


def _numbers_of(table: Any) -> tuple[int, ...]:
    if not isinstance(table, torch.Tensor):
        return tuple(int(x) for x in table)
    version, numbers = _numbers.get(table, (None, ()))
    if version != table._version:
        version, numbers = _numbers[table] = table._version, tuple(table.tolist())
    found: tuple[int, ...] = numbers
    return found


def _attend(
    qkv: tuple[Any, Any, Any], layout: Any, dropout_p: float, softmax_scale: float | None, causal: bool, window_size: Any,
    alibi_slopes: Any, deterministic: bool, return_attn_probs: bool, group: Any, *, groups: int = 0,
) -> Any:  # fmt: skip
    tokens = qkv[0].shape[-3] * dist.get_world_size(group_of(group))
    result = attention(
        *qkv, group=group, layout=layout, groups=groups, causal=causal, window_size=read_window(window_size, tokens),
        alibi_slopes=alibi_slopes, softmax_scale=softmax_scale, dropout_p=dropout_p, deterministic=deterministic,
        return_lse=return_attn_probs,
    )  # fmt: skip
    return (*result, None) if return_attn_probs else result


@functools.lru_cache(maxsize=64)
def _layout_of(kind: str, local: tuple[int, ...], ranks: int) -> Layout:
    """Returns the layout of documents with these borders on each rank."""
    borders = [border * ranks for border in local]
    if kind == "zigzag":
        if any(border % 2 for border in local):
            raise _core.InvalidRequest(f"cu_seqlens = {local}, must be even: pad documents to multiples of 2 * ranks tokens")
        return Layout.zigzag(borders[-1], ranks, 1, borders)
    lengths = [end - begin for begin, end in itertools.pairwise(local)]
    starts = [[begin + rank * length for begin, length in zip(borders, lengths)] for rank in range(ranks)]
    return Layout(borders[-1], [[(x, x + length) for x, length in zip(of, lengths) if length] for of in starts], borders)


def _varlen(kind: str, qkv: tuple[Any, Any, Any], cu_seqlens: Any, *tail: Any) -> Any:
    return _attend(qkv, _layout_of(kind, _numbers_of(cu_seqlens), dist.get_world_size(group_of(tail[-1]))), *tail)


def ring_flash_attn_func(
    q: Any, k: Any, v: Any,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Returns out, shaped like q (batch, tokens, heads, head_dim). Rank r holds chunk r of the sequence."""
    return _attend((q, k, v), "contiguous", dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def ring_flash_attn_kvpacked_func(
    q: Any, kv: Any,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like ring_flash_attn_func(), of kv (batch, tokens, 2, heads_kv, head_dim)."""
    return _attend((q, *kv.unbind(-3)), "contiguous", dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def ring_flash_attn_qkvpacked_func(
    qkv: Any,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like ring_flash_attn_func(), of qkv (batch, tokens, 3, heads, head_dim)."""
    return _attend(qkv.unbind(-3), "contiguous", dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def ring_flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens: Any, max_seqlen: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Returns out, shaped like q (tokens, heads, head_dim). Rank r holds chunk r of each document. cu_seqlens: of the rank's own tokens."""
    return _varlen("contiguous", (q, k, v), cu_seqlens, dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def ring_flash_attn_varlen_kvpacked_func(
    q: Any, kv: Any, cu_seqlens: Any, max_seqlen: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like ring_flash_attn_varlen_func(), of kv (tokens, 2, heads_kv, head_dim)."""
    return _varlen("contiguous", (q, *kv.unbind(-3)), cu_seqlens, dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def ring_flash_attn_varlen_qkvpacked_func(
    qkv: Any, cu_seqlens: Any, max_seqlen: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like ring_flash_attn_varlen_func(), of qkv (tokens, 3, heads, head_dim)."""
    return _varlen("contiguous", qkv.unbind(-3), cu_seqlens, dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def zigzag_ring_flash_attn_func(
    q: Any, k: Any, v: Any,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like ring_flash_attn_func(). Rank r holds chunks r and 2 * ranks - 1 - r of 2 * ranks, which balances work if causal."""
    return _attend((q, k, v), "zigzag", dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def zigzag_ring_flash_attn_kvpacked_func(
    q: Any, kv: Any,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like zigzag_ring_flash_attn_func(), of kv (batch, tokens, 2, heads_kv, head_dim)."""
    return _attend((q, *kv.unbind(-3)), "zigzag", dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def zigzag_ring_flash_attn_qkvpacked_func(
    qkv: Any,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like zigzag_ring_flash_attn_func(), of qkv (batch, tokens, 3, heads, head_dim)."""
    return _attend(qkv.unbind(-3), "zigzag", dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def zigzag_ring_flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens: Any, max_seqlen: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like ring_flash_attn_varlen_func(). Rank r holds chunks r and 2 * ranks - 1 - r of each document."""
    return _varlen("zigzag", (q, k, v), cu_seqlens, dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def zigzag_ring_flash_attn_varlen_kvpacked_func(
    q: Any, kv: Any, cu_seqlens: Any, max_seqlen: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like zigzag_ring_flash_attn_varlen_func(), of kv (tokens, 2, heads_kv, head_dim)."""
    return _varlen("zigzag", (q, *kv.unbind(-3)), cu_seqlens, dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def zigzag_ring_flash_attn_varlen_qkvpacked_func(
    qkv: Any, cu_seqlens: Any, max_seqlen: int,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like zigzag_ring_flash_attn_varlen_func(), of qkv (tokens, 3, heads, head_dim)."""
    return _varlen("zigzag", qkv.unbind(-3), cu_seqlens, dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def llama3_flash_attn_prepare_cu_seqlens(cu_seqlens: Any, causal: bool, rank: int, world_size: int) -> Any:
    """Returns (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, local_k_slice) of a rank that holds chunk `rank` of the stream.

    cu_seqlens: where documents begin among all tokens, and the end; a tensor on any device, on which the two tables lie.
    """
    borders = _numbers_of(cu_seqlens)
    if borders[-1] % world_size:
        raise _core.InvalidRequest(f"cu_seqlens[-1] = {borders[-1]}, must be a multiple of world_size = {world_size}: pad the last document")
    tokens = borders[-1] // world_size
    begin, end = rank * tokens, (rank + 1) * tokens
    left, right = bisect.bisect_left(borders, begin), bisect.bisect_left(borders, end)
    if borders[left] != begin:
        left -= 1
    chosen = list(borders[left : right + 1])
    queries = [0, *(x - begin for x in chosen[1:-1]), tokens]
    if causal:  # the last document's keys end where its queries do
        chosen[-1] = end
    keys = [x - chosen[0] for x in chosen]
    tables = [cu_seqlens.new_tensor(x) for x in (queries, keys)]
    setattr(tables[0], _DOCUMENTS, borders)
    longest = (max(b - a for a, b in itertools.pairwise(x)) for x in (queries, keys))
    return (*tables, *longest, slice(chosen[0], chosen[-1]))


def _documents(cu_seqlens_q: Any, cu_seqlens_k: Any, local_k_slice: Any, tokens: int, group: Any) -> tuple[int, ...]:
    """Returns the global table: that of prepare_cu_seqlens(), or for other tables what ranks tell each other, in each call."""
    known: tuple[int, ...] | None = getattr(cu_seqlens_q, _DOCUMENTS, None)
    if known is not None:
        return known
    starts: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(starts, [local_k_slice.start + x for x in _numbers_of(cu_seqlens_k)[:-1]], group)
    return (*sorted({0, *itertools.chain(*starts)}), tokens * len(starts))


@functools.lru_cache(maxsize=64)
def _contiguous(borders: tuple[int, ...], ranks: int) -> Layout:
    return Layout.contiguous(borders[-1], ranks, 1, borders)


def _llama3(qkv: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, heads_k_stride: int, local_k_slice: Any, *tail: Any) -> Any:
    q, k, _ = qkv
    group = group_of(tail[-1])
    heads = k.shape[1]
    if heads_k_stride < 1 or heads % heads_k_stride:
        raise _core.InvalidRequest(f"heads_k_stride = {heads_k_stride}, must divide {heads} = heads of k")
    borders = _documents(cu_seqlens_q, cu_seqlens_k, local_k_slice, q.shape[0], group)
    groups = 0 if tail[0] else heads // heads_k_stride
    return _attend(qkv, _contiguous(borders, dist.get_world_size(group)), *tail, groups=groups)


def llama3_flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int, heads_k_stride: int, local_k_slice: Any,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Returns out, shaped like q (tokens, heads, head_dim). Rank r holds chunk r of the packed stream. The tables are those of
    llama3_flash_attn_prepare_cu_seqlens(). With other tables every call waits for the device and for other ranks."""
    tables = cu_seqlens_q, cu_seqlens_k, heads_k_stride, local_k_slice
    return _llama3((q, k, v), *tables, dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def llama3_flash_attn_varlen_kvpacked_func(
    q: Any, kv: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int, heads_k_stride: int, local_k_slice: Any,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like llama3_flash_attn_varlen_func(), of kv (tokens, 2, heads_kv, head_dim)."""
    tables = cu_seqlens_q, cu_seqlens_k, heads_k_stride, local_k_slice
    return _llama3((q, *kv.unbind(-3)), *tables, dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def llama3_flash_attn_varlen_qkvpacked_func(
    qkv: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int, heads_k_stride: int, local_k_slice: Any,
    dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False, window_size: Any = (-1, -1),
    alibi_slopes: Any = None, deterministic: bool = False, return_attn_probs: bool = False, group: Any = None,
) -> Any:  # fmt: skip
    """Like llama3_flash_attn_varlen_func(), of qkv (tokens, 3, heads, head_dim)."""
    tables = cu_seqlens_q, cu_seqlens_k, heads_k_stride, local_k_slice
    return _llama3(qkv.unbind(-3), *tables, dropout_p, softmax_scale, causal, window_size, alibi_slopes, deterministic, return_attn_probs, group)


def _refused(name: str) -> Any:
    def function(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            f"{name}(): a rank with every ranks-th token has more than two pieces of a sequence, which fa2's kernels do not take: "
            f"shard in zigzag, which balances work as well, and call zigzag_ring_{name.removeprefix('stripe_')}()"
        )

    function.__name__ = function.__qualname__ = name
    return function


stripe_flash_attn_func = _refused("stripe_flash_attn_func")
stripe_flash_attn_kvpacked_func = _refused("stripe_flash_attn_kvpacked_func")
stripe_flash_attn_qkvpacked_func = _refused("stripe_flash_attn_qkvpacked_func")
stripe_flash_attn_varlen_func = _refused("stripe_flash_attn_varlen_func")
stripe_flash_attn_varlen_kvpacked_func = _refused("stripe_flash_attn_varlen_kvpacked_func")
stripe_flash_attn_varlen_qkvpacked_func = _refused("stripe_flash_attn_varlen_qkvpacked_func")
