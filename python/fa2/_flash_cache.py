"""Appends to a cache of keys and values, then attends to it: one function in flash_attn 2 and 3."""

from __future__ import annotations

from typing import Any

import torch

from . import _core
from ._cache import append
from ._call import CU_SEQLENS_Q, Options, replaced
from ._flash_call import attend, with_scale
from ._latent import join
from ._padding import multiple_of, pad_head_dim
from ._torch_run import contiguous


def as_lengths(cache_seqlens: Any, batch: int, device: Any) -> Any:
    """Returns a number as int32 (batch), a tensor or None unchanged."""
    if isinstance(cache_seqlens, int):
        return torch.full((batch,), cache_seqlens, dtype=torch.int32, device=device)
    return cache_seqlens


def _row_pitch(cache: torch.Tensor) -> tuple[int, int]:
    """Returns (elements from one row to the next, rows from one entry or page to the next)."""
    entries, rows = cache.shape[:2]
    row = cache.stride(1) if rows > 1 else cache.stride(0)
    pitch = cache.stride(0) if entries > 1 else rows * row
    if row <= 0 or pitch % row != 0 or pitch < rows * row:
        raise NotImplementedError(f"cache.stride() = {cache.stride()}, must have entries a whole number of rows apart for cache_leftpad")
    return row, pitch // row


def _skip_padding(k_cache: Any, v_cache: Any, leftpad: Any, batch_idx: Any, page_table: Any) -> tuple[Any, Any, Any]:
    """Returns (k, v, page table): the same memory in pages of one row. Each sequence begins after its padding."""
    (k_row, pitch), (v_row, v_pitch) = _row_pitch(k_cache), _row_pitch(v_cache)
    if pitch != v_pitch:
        raise NotImplementedError("v_cache.stride() = another pitch, must have entries as many rows apart as k_cache for cache_leftpad")
    entries, rows = k_cache.shape[:2]
    longest = rows if page_table is None else page_table.shape[1] * rows
    places = torch.arange(longest, device=leftpad.device) + leftpad[:, None]
    places = places.clamp_(max=longest - 1)
    if page_table is None:
        first = torch.arange(leftpad.shape[0], device=leftpad.device) if batch_idx is None else batch_idx
        table = first[:, None] * pitch + places
    else:
        table = page_table.gather(1, places // rows) * pitch + places % rows
    total = (entries - 1) * pitch + rows
    k = k_cache.as_strided((total, 1, *k_cache.shape[2:]), (k_row, k_row, *k_cache.stride()[2:]))
    v = v_cache.as_strided((total, 1, *v_cache.shape[2:]), (v_row, v_row, *v_cache.stride()[2:]))
    return k, v, table.to(torch.int32)


def _check(k_cache: Any, v_cache: Any, k: Any, v: Any, lengths: Any, cos: Any, sin: Any) -> None:
    if (k is None) != (v is None) or (cos is None) != (sin is None):
        raise _core.InvalidRequest("k, v, rotary_cos, rotary_sin = one of two, must be given in pairs: k with v, rotary_cos with rotary_sin")
    if k is not None and lengths is None:
        raise _core.InvalidRequest("cache_seqlens = None, must be given with k and v: it says where they go")
    if cos is not None and k is None:
        raise _core.InvalidRequest("rotary_cos = given, must be None without new keys: pass k and v")
    if (k_cache.shape[-1] > 1 and k_cache.stride(-1) != 1) or (v_cache.shape[-1] > 1 and v_cache.stride(-1) != 1):
        raise _core.InvalidRequest("k_cache, v_cache = gaps between columns, must have a contiguous last dimension: pass copies")


def _append(q: Any, caches: Any, new: Any, lengths: Any, options: tuple[Any, ...], rotary: Any, **places: Any) -> Any:
    """Writes new keys and values. Returns q, rotated if there are angles."""
    cos, sin, interleaved, positions = rotary
    found = Options(*options)
    turned = append(
        contiguous(new[0]),
        contiguous(new[1]),
        caches[0],
        caches[1],
        lengths,
        q=None if cos is None else contiguous(q),
        rotary_cos=cos,
        rotary_sin=sin,
        rotary_interleaved=interleaved,
        rotary_seqlens=None if cos is None else positions,
        causal_positions=bool(found.mask or found.attention_chunk) or found.window_left >= 0 or found.window_right >= 0,
        cu_seqlens_q=None if cos is None else found.cu_seqlens_q,
        k_descale=found.k_descale,
        v_descale=found.v_descale,
        **places,
    )
    return q if turned is None else turned


@torch.no_grad()
def attend_cache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any,
    v: Any,
    options: tuple[Any, ...],
    return_lse: bool,
    *,
    rotary: tuple[Any, Any, bool, Any],
    lengths: Any,
    batch_idx: Any,
    leftpad: Any,
    page_table: Any,
    cu_seqlens_new: Any = None,
    qv: Any = None,
) -> Any:
    """Returns out, or (out, lse) if return_lse. `options` have all but the lengths of keys and the pages.

    rotary: cos, sin, interleaved, positions. qv: scores are q k^T + qv v^T, see _latent.join().

    Head dims that are not multiples of 8, or of 16 with an 8-bit cache, run on padded copies of the cache, which are
    written back if k is appended.
    An entry of batch_idx is treated as a page as long as the cache. leftpad: treated as pages of one row.
    """
    _check(k_cache, v_cache, k, v, lengths, rotary[0], rotary[1])
    head_dim, head_dim_v = k_cache.shape[-1], v_cache.shape[-1]
    originals = k_cache, v_cache
    multiple = multiple_of(k_cache)
    is_padded = head_dim % multiple != 0 or head_dim_v % multiple != 0
    if is_padded:
        options = with_scale(options, head_dim + (0 if qv is None else head_dim_v))
        q, k_cache, v_cache = (pad_head_dim(x, multiple) for x in (q, k_cache, v_cache))
        k, v, qv = (None if x is None else pad_head_dim(x, multiple) for x in (k, v, qv))
    if page_table is not None and batch_idx is not None:
        page_table, batch_idx = page_table.index_select(0, batch_idx), None
    if k is not None:
        places = dict(page_table=page_table, cache_batch_idx=batch_idx, cu_seqlens_new=cu_seqlens_new)
        q = _append(q, (k_cache, v_cache), (k, v), lengths, options, rotary, **places)
        lengths = lengths + (k.shape[1] if cu_seqlens_new is None else cu_seqlens_new.diff())
        if is_padded:
            originals[0].copy_(k_cache[..., :head_dim])
            originals[1].copy_(v_cache[..., :head_dim_v])
    if leftpad is not None:
        if lengths is None:
            raise _core.InvalidRequest("cache_seqlens = None, must be given with cache_leftpad")
        k_cache, v_cache, page_table = _skip_padding(k_cache, v_cache, leftpad, batch_idx, page_table)
        lengths = lengths - leftpad
    elif batch_idx is not None:
        page_table = batch_idx[:, None]
    elif page_table is None:
        batch = q.shape[0] if q.dim() == 4 else options[CU_SEQLENS_Q].shape[0] - 1
        if k_cache.shape[0] > batch:
            k_cache, v_cache = k_cache[:batch], v_cache[:batch]
    if qv is not None:
        q, k_cache, v_cache = join(q, k_cache, v_cache, qv, options)
    found = attend(q, k_cache, v_cache, replaced(options, seqused_k=lengths, page_table=page_table), False, return_lse)
    if not is_padded:
        return found
    return (found[0][..., :head_dim_v], found[1]) if return_lse else found[..., :head_dim_v]
