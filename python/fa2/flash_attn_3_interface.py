"""FlashAttention-3's functions on fa2: `from fa2.flash_attn_3_interface import flash_attn_func`.

Arguments and their order are those of FlashAttention-3's flash_attn_interface, on every GPU that fa2 supports. q_descale
raises NotImplementedError unless it is None. attention_chunk: with n > 0 a query sees only keys of its own chunk of n,
also with gradients. num_splits, pack_gqa and scheduler_metadata are accepted and ignored, because fa2 decides them itself.
sm_margin limits persistent kernels alone.
k and v, or k_cache and v_cache, may be float8_e4m3fn, without gradients and with head dims that are padded to multiples
of 16. q, new k and v, and the output have 16 bits. k_descale, v_descale: float32 (batch, heads_kv), of any strides; a
key is k * k_descale, a value v * v_descale, and new ones are divided by them. They are an error with k and v of 16 bits.

qv: latent attention (MLA). Scores are softmax_scale * (q k^T + qv v^T), for q and k (..., head_dim), qv and v (..., head_dim_v),
qv of q's other extents. softmax_scale is then 1 / sqrt(head_dim + head_dim_v) if None. This runs as attention of keys [v | k]
and queries [qv | q], with the values that are the first columns of the keys. Tensors whose columns are already in this
order, as in buffer[..., :head_dim_v] and buffer[..., head_dim_v:], are read in place. Others are copied side by side in each
call, of a cache all rows, used or not: memory for one more cache, and at least three times the bytes that one step of decoding
reads. With gradients k and v are always copied. k_descale and v_descale must be the same tensor.

fa2.flash_attn_interface explains causal, window_size, softcap, softmax_scale and deterministic. softmax_lse is
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
from ._latent import attend_latent

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "get_scheduler_metadata",
]


def _expect_absent(q_descale: Any) -> None:
    if q_descale is None:
        return
    raise NotImplementedError(
        "q_descale = given, must be left out on fa2: queries have 16 bits; k and v alone may have 8, with k_descale and v_descale"
    )


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
    """Takes qkv (batch, seqlen, 3, heads, head_dim), or with num_heads_q (batch, seqlen, heads + 2 heads_kv, head_dim).

    Returns out (batch, seqlen, heads, head_dim), or (out, softmax_lse) if return_attn_probs.
    """
    _expect_absent(q_descale)
    window = read_window(window_size, qkv.shape[1])
    numbers: dict[str, Any] = dict(attention_chunk=attention_chunk, softmax_scale=softmax_scale, softcap=softcap, sm_margin=sm_margin)
    options = make_options(causal, window, **numbers, k_descale=k_descale, v_descale=v_descale)
    if qkv.dim() == 5:
        return attend_packed(None, qkv, options, deterministic, return_attn_probs)
    if num_heads_q is None or (qkv.shape[2] - num_heads_q) % 2 != 0:
        raise _core.InvalidRequest(
            f"num_heads_q = {num_heads_q}, must be the number of query heads of qkv (batch, seqlen, heads + 2 heads_kv, head_dim)"
        )
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
    """Returns out for q (batch, seqlen_q, heads, head_dim), k (batch, seqlen_k, heads_kv, head_dim) and v (..., head_dim_v).

    return_attn_probs: returns (out, softmax_lse).
    """
    _expect_absent(q_descale)
    window = read_window(window_size, k.size(1))
    numbers: dict[str, Any] = dict(attention_chunk=attention_chunk, softmax_scale=softmax_scale, softcap=softcap, sm_margin=sm_margin, sinks=s_aux)
    options = make_options(causal, window, **numbers, k_descale=k_descale, v_descale=v_descale)
    return attend_latent(q, k, v, qv, options, deterministic, return_attn_probs)


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
    """Does what flash_attn_func() does, for q (total_q, heads, head_dim), k and v (total_k, heads_kv, head_dim).

    seqused_q, seqused_k: int32 (batch), how many rows of each sequence count; out is 0 in the others.
    """
    _expect_absent(q_descale)
    numbers: dict[str, Any] = dict(attention_chunk=attention_chunk, softmax_scale=softmax_scale, softcap=softcap, sm_margin=sm_margin, sinks=s_aux)
    numbers.update(max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, k_descale=k_descale, v_descale=v_descale)
    tables = dict(cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, seqused_q=seqused_q, seqused_k=seqused_k)
    options = make_options(causal, read_window(window_size, max_seqlen_k), **numbers, **tables)
    return attend_latent(q, k, v, qv, options, deterministic, return_attn_probs)


@_mistakes.explained
def flash_attn_combine(
    out_partial: Any, lse_partial: Any, out: Any = None, out_dtype: torch.dtype | None = None
) -> tuple[Any, Any]:
    """Merges attention over parts of the keys: (out (batch, seqlen, heads, head_dim), lse (batch, seqlen, heads)).

    out_partial: (parts, batch, seqlen, heads, head_dim), float16, bfloat16 or float32; lse_partial: float32 (parts,
    batch, seqlen, heads). out: the output to write. out_dtype: the dtype of a new output, that of the parts if None. If all
    parts of a row are empty, its lse is -inf.
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
    """Does what flash_attn_interface.flash_attn_with_kvcache() does, also for packed queries and new keys. No gradient.

    page_table: the block_table of that function. It may be combined with cache_batch_idx (rows of the table) and cache_leftpad.
    q: (batch, seqlen_q, heads, head_dim), or (total_q, heads, head_dim) with cu_seqlens_q int32 (batch + 1) and
    max_seqlen_q; k and v: (batch, new, heads_kv, head_dim), or (total_new, heads_kv, head_dim) with cu_seqlens_k_new.
    rotary_seqlens: int32 (batch), positions of the first new rows, cache_seqlens if None; ignored without rotary_cos.
    Nothing waits for the GPU. Entries out of range are clamped; with FA2_CHECK=1 they are an error.
    """
    _expect_absent(q_descale)
    rows = k_cache.shape[1] * (1 if page_table is None else page_table.shape[1])
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    longest = None if cu_seqlens_q is None else max_seqlen_q
    numbers: dict[str, Any] = dict(attention_chunk=attention_chunk, softmax_scale=softmax_scale, softcap=softcap, sm_margin=sm_margin, sinks=s_aux)
    numbers.update(max_seqlen_q=longest, cu_seqlens_q=cu_seqlens_q, k_descale=k_descale, v_descale=v_descale)
    return attend_cache(
        q,
        k_cache,
        v_cache,
        k,
        v,
        make_options(causal, read_window(window_size, rows), **numbers),
        return_softmax_lse,
        rotary=(rotary_cos, rotary_sin, rotary_interleaved, rotary_seqlens),
        lengths=as_lengths(cache_seqlens, batch, q.device),
        batch_idx=cache_batch_idx,
        leftpad=cache_leftpad,
        page_table=page_table,
        cu_seqlens_new=cu_seqlens_k_new,
        qv=qv,
    )


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
    """Returns int32 (1) on the device of cache_seqlens. It holds no information, because fa2's kernels schedule themselves."""
    return torch.zeros(1, dtype=torch.int32, device=cache_seqlens.device)
