"""flash_attn 2.8.4's functions on fa2: `from fa2.flash_attn_interface import flash_attn_func`.

Arguments, shapes and return values are flash_attn's; docs/python.md lists the additions. In all functions:

    dropout_p: the probability of dropping; 0 at inference.
    softmax_scale: 1 / sqrt(head_dim) if None.
    causal: query i sees key j iff j <= i + seqlen_k - seqlen_q.
    window_size: (left, right) keys around a query's own position, numbers or a tensor of two; below 0: no bound.
    softcap: above 0, scores become softcap * tanh(score / softcap).
    alibi_slopes: float32 (heads) or (batch, heads); scores lose slope * |i + seqlen_k - seqlen_q - j|.
    deterministic: gradients have the same bits in every run.
    return_attn_probs: (out, softmax_lse, S_dmask). softmax_lse: float32 (batch, heads, seqlen_q), or
        (heads, total_q) of packed sequences, +inf if a query sees no key. S_dmask: empty without dropout_p, else
        exp(score - row maximum) in q's dtype, negative if dropped: for tests, with memory of seqlen_q * seqlen_k.
    s_aux: (heads), a logit that joins each row's softmax without a value; fa2's own.

float16 and bfloat16, head dims as fa2.attention() takes them; those that are not multiples of 8 are padded. Raises fa2.Error, a
RuntimeError.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _core, _mistakes
from ._call import DROPOUT_P, Options
from ._flash_cache import as_lengths, attend_cache
from ._flash_call import attend, make_options, read_window, with_scale
from ._flash_dropout import draw_state, signed_exponentials
from ._flash_packed import attend_packed, unpack
from ._flash_private import (
    USE_TRITON_ROCM,
    _flash_attn_backward,
    _flash_attn_forward,
    _flash_attn_varlen_backward,
    _flash_attn_varlen_forward,
    _get_block_size_n,
    _wrapped_flash_attn_backward,
    _wrapped_flash_attn_forward,
    _wrapped_flash_attn_varlen_backward,
    _wrapped_flash_attn_varlen_forward,
    flash_attn_gpu,
    maybe_contiguous,
    packed_tables,
)

__all__ = [
    "USE_TRITON_ROCM",
    "_flash_attn_backward",
    "_flash_attn_forward",
    "_flash_attn_varlen_backward",
    "_flash_attn_varlen_forward",
    "_get_block_size_n",
    "_wrapped_flash_attn_backward",
    "_wrapped_flash_attn_forward",
    "_wrapped_flash_attn_varlen_backward",
    "_wrapped_flash_attn_varlen_forward",
    "flash_attn_func",
    "flash_attn_gpu",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "maybe_contiguous",
]


def _run(call: Any, operands: tuple[Any, ...], options: tuple[Any, ...], deterministic: bool, probs: bool) -> Any:
    """Returns what a function of flash_attn does. call: attend() of (q, k, v), or attend_packed() of (q, kv) or (None, qkv)."""
    if not probs:
        return call(*operands, options, deterministic, False)
    q, k, _ = operands if call is attend else unpack(*operands)
    mask = q.new_empty(0)
    if options[DROPOUT_P]:
        options = found = Options(*with_scale(options, q.shape[-1]))._replace(dropout_state=draw_state(q))
        mask = signed_exponentials(q, k, found)
    return *call(*operands, options, deterministic, True), mask


@_mistakes.explained
def flash_attn_qkvpacked_func(
    qkv: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Returns out (batch, seqlen, heads, head_dim) for qkv (batch, seqlen, 3, heads, head_dim), whose gradient is one tensor."""
    window = read_window(window_size, qkv.shape[1])
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    options = make_options(causal, window, **numbers)
    return _run(attend_packed, (None, qkv), options, deterministic, return_attn_probs)


@_mistakes.explained
def flash_attn_kvpacked_func(
    q: Any,
    kv: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Returns out, shaped like q (batch, seqlen_q, heads, head_dim), for kv (batch, seqlen_k, 2, heads_kv, head_dim)."""
    window = read_window(window_size, kv.shape[1])
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    options = make_options(causal, window, **numbers)
    return _run(attend_packed, (q, kv), options, deterministic, return_attn_probs)


@_mistakes.explained
def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    s_aux: Any = None,
) -> Any:
    """Returns out, shaped like q (batch, seqlen_q, heads, head_dim), for k and v (batch, seqlen_k, heads_kv, head_dim)."""
    window = read_window(window_size, k.size(1))
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    options = make_options(causal, window, **numbers, sinks=s_aux)
    return _run(attend, (q, k, v), options, deterministic, return_attn_probs)


@_mistakes.explained
def flash_attn_varlen_qkvpacked_func(
    qkv: Any,
    cu_seqlens: Any,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Returns out (total, heads, head_dim) for qkv (total, 3, heads, head_dim) with cu_seqlens int32 (batch + 1)."""
    window, tables = read_window(window_size, max_seqlen), dict(cu_seqlens_q=cu_seqlens, cu_seqlens_k=cu_seqlens)
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    options = make_options(causal, window, **numbers, max_seqlen_q=max_seqlen, max_seqlen_k=max_seqlen, **tables)
    return _run(attend_packed, (None, qkv), options, deterministic, return_attn_probs)


@_mistakes.explained
def flash_attn_varlen_kvpacked_func(
    q: Any,
    kv: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Returns out, shaped like q (total_q, heads, head_dim), for kv (total_k, 2, heads_kv, head_dim)."""
    window, tables = read_window(window_size, max_seqlen_k), dict(cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    options = make_options(causal, window, **numbers, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, **tables)
    return _run(attend_packed, (q, kv), options, deterministic, return_attn_probs)


@_mistakes.explained
def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Any = None,
    s_aux: Any = None,
) -> Any:
    """Returns out, shaped like q (total_q, heads, head_dim), for k and v (total_k, heads_kv, head_dim).

    block_table: int32 (batch, pages per sequence); k and v are then (pages, page_size, heads_kv, head_dim), of any
    page size, and have no gradient.
    """
    window = read_window(window_size, max_seqlen_k)
    tables = packed_tables(cu_seqlens_q, cu_seqlens_k, None, None, block_table)
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    numbers.update(sinks=s_aux)
    options = make_options(causal, window, **numbers, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, **tables)
    return _run(attend, (q, k, v), options, deterministic, return_attn_probs)


def _check_pages(cache_seqlens: Any, new: int, rows: int) -> None:
    """Raises if block_table is too short. Waits for the GPU, so that a tensor is not read during the capture of a graph."""
    if isinstance(cache_seqlens, torch.Tensor):
        if cache_seqlens.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        cache_seqlens = int(cache_seqlens.max()) if cache_seqlens.numel() else 0
    if cache_seqlens is not None and cache_seqlens + new > rows:
        raise _core.InvalidRequest(f"block_table = pages of {rows} rows, must have at least {cache_seqlens + new} rows: pass more pages")


@_mistakes.explained
def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any = None,
    v: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Any = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    s_aux: Any = None,
) -> Any:
    """Appends k and v (batch, new, heads_kv, head_dim) to a cache in place, then returns attention over it.

    Has no gradient. q: (batch, seqlen_q, heads, head_dim); k_cache, v_cache: (entries, rows, heads_kv, head_dim), or
    with block_table int32 (batch, pages per sequence) pages (pages, page_size, heads_kv, head_dim), of any page size.
    cache_seqlens: rows that count before the append, a number or int32 (batch); None: all. cache_batch_idx: int32
    (batch), each sequence's entry. cache_leftpad: int32 (batch), rows that do not count at the start; both without
    block_table. rotary_cos, rotary_sin: (positions, rotary_dim / 2); new row t has position cache_seqlens + t, query i
    that if causal or windowed, else of new row 0. num_splits: ignored; fa2 splits keys if that is faster.
    Raises RuntimeError if block_table has too few pages; the check waits for the GPU if cache_seqlens is a tensor.
    """
    batch, rows = q.shape[0], k_cache.shape[1]
    if block_table is not None:
        if cache_batch_idx is not None or cache_leftpad is not None:
            raise _core.InvalidRequest("cache_batch_idx, cache_leftpad = given, must be None with block_table")
        rows *= block_table.shape[1]
        _check_pages(cache_seqlens, 0 if k is None else k.shape[1], rows)
    window = read_window(window_size, rows)
    return attend_cache(
        q,
        k_cache,
        v_cache,
        k,
        v,
        make_options(
            causal, window, softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, sinks=s_aux
        ),
        return_softmax_lse,
        rotary=(rotary_cos, rotary_sin, rotary_interleaved, None),
        lengths=as_lengths(cache_seqlens, batch, q.device),
        batch_idx=cache_batch_idx,
        leftpad=cache_leftpad,
        page_table=block_table,
    )
