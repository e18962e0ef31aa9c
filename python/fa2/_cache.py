"""append() writes to a cache of keys and values; merge() joins attention over parts of the keys."""

from __future__ import annotations

from typing import Any

from . import _core, _hooks, _mistakes
from ._types import LseBase


@_mistakes.explained
def append(
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    cache_seqlens: Any,
    *,
    q: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    rotary_interleaved: bool = False,
    rotary_seqlens: Any = None,
    causal_positions: bool = True,
    page_table: Any = None,
    cache_batch_idx: Any = None,
    cu_seqlens_new: Any = None,
    cu_seqlens_q: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
) -> Any:
    """Writes new keys and values into a cache in place, keys rotated if there are angles. Returns q rotated, or None.

    k, v: (batch, new, heads_kv, head_dim), or (total, heads_kv, head_dim) with cu_seqlens_new. k_cache, v_cache:
    (entries, rows, heads_kv, head_dim), or (pages, page_size, heads_kv, head_dim) with page_table int32 (batch, pages
    per sequence). cache_seqlens: int32 (batch), rows of each sequence before the call. cache_batch_idx: int32
    (batch), each sequence's entry. rotary_cos, rotary_sin: (positions, rotary_dim / 2), of k's dtype or float32;
    columns i and i + rotary_dim / 2 form a pair, or if rotary_interleaved 2 i and 2 i + 1. rotary_seqlens: int32
    (batch), positions of the first new row, cache_seqlens if None. q: (batch, seqlen_q, heads, head_dim), or
    packed with cu_seqlens_q; its row i has the position of new row i, or without causal_positions that of new row 0.
    k_descale, v_descale: float32 (batch, heads_kv), only with caches of float8_e4m3fn, which hold k / k_descale and
    v / v_descale, rounded to nearest even and clamped to 448; 1 if None. DeepSeek-V3.2's rows of 656 bytes: k (..., 64)
    and v (..., 512) bfloat16, k_cache (..., 656) float8_e4m3fn, and v_cache a view of its first 512 columns.

    Runs on the device of the tensors. Not differentiable. Raises as attention() does.
    """
    torch = _hooks.torch_of(k)
    wants_gradients = any(getattr(x, "requires_grad", False) for x in (k, v, q))
    if torch is not None and torch.is_grad_enabled() and wants_gradients:
        raise _core.InvalidRequest("requires_grad = True, must be False of k, v and q: call append() under torch.no_grad()")
    q_out = None if q is None else _hooks.new(q, q.shape)
    _core.append(
        # written: append tensors
        k,
        v,
        k_cache,
        v_cache,
        k_descale,
        v_descale,
        cache_seqlens,
        cache_batch_idx,
        page_table,
        cu_seqlens_new,
        cu_seqlens_q,
        rotary_cos,
        rotary_sin,
        rotary_seqlens,
        q,
        q_out,
        # end of append tensors
        rotary_interleaved,
        causal_positions,
    )
    return q_out


@_mistakes.explained
def merge(
    out_parts: Any, lse_parts: Any, *, out: Any = None, out_dtype: Any = None, lse_base: LseBase = "natural"
) -> tuple[Any, Any]:
    """Returns (out, lse) of attention over all keys, merged from attention over parts of the keys.

    out_parts: (parts, batch, seqlen_q, heads, head_dim), float16, bfloat16 or float32, each as attention() wrote it;
    lse_parts: float32 (parts, batch, heads, seqlen_q). Packed: (parts, total, heads, head_dim) and (parts, heads,
    total). out_dtype: the dtype of a new out, that of the parts if None; float32 works too. lse_base: that of the
    calls that wrote the parts, and of the new lse. Runs on the device of the tensors. Not differentiable.
    """
    shape = tuple(out_parts.shape)
    if out is None:
        out = _hooks.new(out_parts, shape[1:], out_dtype)
    lse = _hooks.new(out_parts, shape[1:-3] + shape[-2:-1] + shape[-3:-2], "float32")
    _core.merge(out_parts, lse_parts, out, lse, lse_base)
    return out, lse
