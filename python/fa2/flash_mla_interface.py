"""FlashMLA's decoding on fa2: `from fa2.flash_mla_interface import flash_mla_with_kvcache, get_mla_metadata`.

Arguments and their order are FlashMLA's, for dense caches and on every GPU that fa2 supports, with pages of any size, any
number of heads and the head dims of fa2.attention(). Sparse calls, with indices, raise NotImplementedError.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _mistakes
from ._flash_call import attend, make_options

__all__ = ["FlashMLASchedMeta", "flash_mla_with_kvcache", "get_mla_metadata"]


class FlashMLASchedMeta:
    """Holds no information, because fa2's kernels schedule themselves."""


def get_mla_metadata(*args: Any, **keywords: Any) -> tuple[FlashMLASchedMeta, None]:
    """Returns what flash_mla_with_kvcache() takes as tile_scheduler_metadata and num_splits, and ignores."""
    return FlashMLASchedMeta(), None


@_mistakes.explained
@torch.no_grad()
def flash_mla_with_kvcache(
    q: Any,
    k_cache: Any,
    block_table: Any,
    cache_seqlens: Any,
    head_dim_v: int,
    tile_scheduler_metadata: Any,
    num_splits: Any = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    is_fp8_kvcache: bool = False,
    indices: Any = None,
    attn_sink: Any = None,
    extra_k_cache: Any = None,
    extra_indices_in_kvcache: Any = None,
    topk_length: Any = None,
    extra_topk_length: Any = None,
    descale_q: Any = None,
    descale_k: Any = None,
) -> tuple[Any, Any]:
    """Returns (out (batch, seqlen_q, heads, head_dim_v), lse float32 (batch, heads, seqlen_q)) of a paged cache. No gradient.

    q: (batch, seqlen_q, heads, head_dim), float16 or bfloat16; k_cache: (pages, page_size, heads_kv, head_dim), whose first
    head_dim_v columns are the values. block_table: int32 (batch, pages per sequence); cache_seqlens: int32 (batch).
    softmax_scale: 1 / sqrt(head_dim) if None. causal: the last query sees all keys, the one before all but the last.
    k_cache may be float8_e4m3fn: keys and values are then its numbers times descale_k, float32 (1), or 1. Other caches of
    8 bits are an error, also if is_fp8_kvcache promises one. descale_q must be None: q has 16 bits.
    attn_sink: float32 (heads); out is multiplied by exp(lse) / (exp(lse) + exp(attn_sink)).
    lse: natural logarithm, without attn_sink; +inf if a query sees no key, whose out is 0.
    tile_scheduler_metadata and num_splits are ignored.
    """
    _refuse_sparse(indices, extra_k_cache, extra_indices_in_kvcache, topk_length, extra_topk_length)
    _check(q, k_cache, block_table, cache_seqlens, head_dim_v, is_fp8_kvcache, attn_sink, descale_q, descale_k)
    factor = None if descale_k is None else descale_k.reshape(1, 1).expand(q.shape[0], k_cache.shape[2])
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, k_descale=factor, v_descale=factor)
    options = make_options(causal, (-1, -1), **numbers, seqused_k=cache_seqlens, page_table=block_table)
    out, lse = attend(q, k_cache, k_cache[..., :head_dim_v], options, False, True)
    if attn_sink is not None:
        # exp(lse) / (exp(lse) + exp(sink)), for all magnitudes. An empty row stays 0 whatever its factor is.
        factors = (lse.masked_fill(lse == torch.inf, 0) - attn_sink[:, None]).sigmoid()
        out.mul_(factors.transpose(1, 2)[..., None])
    return out, lse


def _refuse_sparse(indices: Any, extra_k_cache: Any, extra_indices: Any, topk_length: Any, extra_topk_length: Any) -> None:
    arguments = dict(
        indices=indices,
        extra_k_cache=extra_k_cache,
        extra_indices_in_kvcache=extra_indices,
        topk_length=topk_length,
        extra_topk_length=extra_topk_length,
    )
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise NotImplementedError(
            f"{', '.join(given)} = given, must be None: fa2 has no sparse decoding. Pass a 16-bit cache as pages of one row to "
            "fa2.attention(), each query as a sequence of its own, its indices as a row of page_table, their number as seqused_k"
        )


def _check(
    q: Any,
    k_cache: Any,
    block_table: Any,
    cache_seqlens: Any,
    head_dim_v: int,
    is_fp8_kvcache: bool,
    attn_sink: Any,
    descale_q: Any,
    descale_k: Any,
) -> None:
    """Raises what fa2.attention() would not find wrong, or would report under other names."""
    columns, heads = q.shape[-1], q.shape[-2]
    if k_cache.itemsize == 1 and k_cache.shape[-1] != columns:
        raise NotImplementedError(
            f"k_cache.shape = {tuple(k_cache.shape)}, must have q's {columns} columns: fa2 reads no rows with factors of their own. "
            "Pass float8_e4m3fn with one factor, descale_k, or 16 bits"
        )
    wrong = []
    if block_table is None or cache_seqlens is None:
        wrong.append("block_table, cache_seqlens = None, must be given: they say which rows count")
    if not 0 < head_dim_v <= k_cache.shape[-1]:
        wrong.append(f"head_dim_v = {head_dim_v}, must be in 1..{k_cache.shape[-1]}: values are columns of k_cache")
    if is_fp8_kvcache and k_cache.itemsize != 1:
        wrong.append(f"is_fp8_kvcache = True, must be False with k_cache of {k_cache.dtype}")
    if attn_sink is not None and (attn_sink.shape != (heads,) or attn_sink.dtype != torch.float32):
        wrong.append(f"attn_sink = {attn_sink.dtype} {tuple(attn_sink.shape)}, must be torch.float32 {(heads,)} = (heads)")
    if descale_q is not None:
        wrong.append("descale_q = given, must be None: q has 16 bits")
    if descale_k is not None and (k_cache.itemsize != 1 or descale_k.numel() != 1):
        wrong.append(f"descale_k = {tuple(descale_k.shape)}, must be (1) with k_cache of float8_e4m3fn, and None with {q.dtype}")
    if wrong:
        raise _mistakes.invalid_request(wrong)
