"""FlashAttention-3's functions on fa2: `from fa2.flash_attn_3_interface import flash_attn_func`.

Arguments and their order are those of FlashAttention-3's flash_attn_interface, on every GPU that fa2 has. Without a
neutral value these raise NotImplementedError: qv, q_descale, k_descale, v_descale, attention_chunk. These are accepted
and change nothing, since fa2 decides them itself: num_splits, pack_gqa, sm_margin, scheduler_metadata. What
causal, window_size, softcap, softmax_scale and deterministic mean is said in fa2.flash_attn_interface; softmax_lse is
float32 (batch, heads, seqlen_q), or (heads, total_q) of packed sequences. s_aux: (heads), a logit that joins each
row's softmax without a value.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from . import _core, _mistakes
from ._cache import merge
from ._flash_cache import as_lengths, attend_cache
from ._flash_call import attend, make_options, read_window
from ._flash_packed import attend_packed

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "get_scheduler_metadata",
]


def _expect_neutral(attention_chunk: int, qv: Any, *descales: Any) -> None:
    if not attention_chunk and qv is None and descales == (None, None, None):
        return
    given = zip(("q_descale", "k_descale", "v_descale"), descales)
    found = [name for name, value in (("qv", qv), *given) if value is not None]
    found += ["attention_chunk"] if attention_chunk else []
    raise NotImplementedError(f"fa2 has no {', '.join(found)}: call without")


@_mistakes.explained
def flash_attn_qkvpacked_func(
    qkv: Any,
    softmax_scale: float | None = None,
    causal: bool = False,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    deterministic: bool = False,
    num_heads_q: int | None = None,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
) -> Any:
    """qkv (batch, seqlen, 3, heads, head_dim), or with num_heads_q (batch, seqlen, heads + 2 heads_kv, head_dim).

    Returns out (batch, seqlen, heads, head_dim), or (out, softmax_lse) if return_attn_probs.
    """
    _expect_neutral(attention_chunk, None, q_descale, k_descale, v_descale)
    window = read_window(window_size, qkv.shape[1])
    options = make_options(softmax_scale, causal, window, softcap, None)
    if qkv.dim() == 5:
        return attend_packed(None, qkv, options, deterministic, return_attn_probs)
    if num_heads_q is None or (qkv.shape[2] - num_heads_q) % 2 != 0:
        raise _core.InvalidRequest("qkv of (batch, seqlen, heads + 2 heads_kv, head_dim) needs num_heads_q, its heads")
    heads_kv = (qkv.shape[2] - num_heads_q) // 2
    q, k, v = qkv.split((num_heads_q, heads_kv, heads_kv), 2)
    return attend(q, k, v, options, deterministic, return_attn_probs)


@_mistakes.explained
def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    s_aux: Any = None,
) -> Any:
    """q (batch, seqlen_q, heads, head_dim), k (batch, seqlen_k, heads_kv, head_dim), v (..., head_dim_v) -> out.

    return_attn_probs: (out, softmax_lse).
    """
    _expect_neutral(attention_chunk, qv, q_descale, k_descale, v_descale)
    window = read_window(window_size, k.size(1))
    options = make_options(softmax_scale, causal, window, softcap, None, s_aux)
    return attend(q, k, v, options, deterministic, return_attn_probs)


@_mistakes.explained
def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    seqused_q: Any = None,
    seqused_k: Any = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    s_aux: Any = None,
) -> Any:
    """q (total_q, heads, head_dim), k and v (total_k, heads_kv, head_dim) -> out; as flash_attn_func() otherwise.

    seqused_q, seqused_k: int32 (batch), rows that count of each sequence; out is 0 in the others.
    """
    _expect_neutral(attention_chunk, qv, q_descale, k_descale, v_descale)
    numbers = (softmax_scale, causal, read_window(window_size, max_seqlen_k), softcap, None, s_aux, 0.0, None)
    tables = (cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k)
    options = make_options(*numbers, max_seqlen_q, max_seqlen_k, *tables)
    return attend(q, k, v, options, deterministic, return_attn_probs)


@_mistakes.explained
def flash_attn_combine(
    out_partial: Any, lse_partial: Any, out: Any = None, out_dtype: torch.dtype | None = None
) -> tuple[Any, Any]:
    """Attention over parts of the keys as one: (out, lse), (batch, seqlen, heads, head_dim) and (batch, seqlen, heads).

    out_partial: (parts, batch, seqlen, heads, head_dim), float16, bfloat16 or float32; lse_partial: float32 (parts,
    batch, seqlen, heads). out: what to write to; out_dtype: of a new one, that of the parts if None. If all parts of a
    row are empty, its lse is -inf.
    """
    merged, lse = merge(out_partial, lse_partial.transpose(-1, -2), out=out, out_dtype=out_dtype)
    lse = lse.masked_fill_(lse == math.inf, -math.inf)
    return merged, lse.transpose(-1, -2)


@_mistakes.explained
def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any = None,
    v: Any = None,
    qv: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k_new: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Any = None,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
    s_aux: Any = None,
) -> Any:
    """As fa2.flash_attn_interface.flash_attn_with_kvcache(), with queries and new keys that may be packed. No gradient.

    page_table: block_table of there, which here goes with cache_batch_idx (rows of the table) and cache_leftpad too.
    q: (batch, seqlen_q, heads, head_dim), or (total_q, heads, head_dim) with cu_seqlens_q int32 (batch + 1) and
    max_seqlen_q; k and v: (batch, new, heads_kv, head_dim), or (total_new, heads_kv, head_dim) with cu_seqlens_k_new.
    rotary_seqlens: int32 (batch), positions of the first new rows where they are not cache_seqlens; ignored without
    rotary_cos. Nothing waits for the GPU: entries that are out of range are cut, or with FA2_CHECK=1 an error.
    """
    _expect_neutral(attention_chunk, qv, q_descale, k_descale, v_descale)
    rows = k_cache.shape[1] * (1 if page_table is None else page_table.shape[1])
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    numbers = (softmax_scale, causal, read_window(window_size, rows), softcap, None, s_aux, 0.0, None)
    longest = None if cu_seqlens_q is None else max_seqlen_q
    out, lse = attend_cache(
        q,
        k_cache,
        v_cache,
        k,
        v,
        make_options(*numbers, longest, None, cu_seqlens_q),
        rotary=(rotary_cos, rotary_sin, rotary_interleaved, rotary_seqlens),
        lengths=as_lengths(cache_seqlens, batch, q.device),
        batch_idx=cache_batch_idx,
        leftpad=cache_leftpad,
        page_table=page_table,
        cu_seqlens_new=cu_seqlens_k_new,
    )
    return (out, lse) if return_softmax_lse else out


def get_scheduler_metadata(
    batch_size: int,
    max_seqlen_q: int,
    max_seqlen_k: int,
    num_heads_q: int,
    num_heads_kv: int,
    headdim: int,
    cache_seqlens: torch.Tensor,
    qkv_dtype: torch.dtype = torch.bfloat16,
    headdim_v: int | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k_new: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    page_size: int | None = None,
    max_seqlen_k_new: int = 0,
    causal: bool = False,
    window_size: Any = (-1, -1),
    attention_chunk: int = 0,
    has_softcap: bool = False,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
) -> torch.Tensor:
    """int32 (1) on cache_seqlens' device, which says nothing: fa2's kernels schedule themselves."""
    return torch.zeros(1, dtype=torch.int32, device=cache_seqlens.device)
