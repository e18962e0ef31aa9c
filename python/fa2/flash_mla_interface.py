"""FlashMLA's decoding and sparse attention on fa2: `from fa2.flash_mla_interface import flash_mla_with_kvcache`.

Arguments and their order are FlashMLA's, on every GPU that fa2 supports, with pages of any size, any number of heads and the
head dims of fa2.attention(). A second cache (extra_k_cache) raises NotImplementedError.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _mistakes
from ._flash_call import attend, make_options

__all__ = ["FlashMLASchedMeta", "flash_mla_sparse_fwd", "flash_mla_with_kvcache", "get_mla_metadata"]

#: Bytes of a row in DeepSeek-V3.2's caches.
_LATENT_ROW = 656


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
    indices: int32 (batch, seqlen_q, topk): the keys of each query, page * page_size + row in the page, in place of block_table
    and cache_seqlens, and without causal; no key if out of range, as -1 is. topk_length: int32 (batch): how many of a query's
    indices count.
    softmax_scale: 1 / sqrt(head_dim) if None. causal: the last query sees all keys, the one before all but the last.
    k_cache may be float8_e4m3fn: keys and values are then its numbers times descale_k, float32 (1), or 1. Or it has DeepSeek-V3.2's
    rows of 656 bytes, float8_e4m3fn or uint8: 512 of float8_e4m3fn, 4 float32 factors, 64 columns of bfloat16; then q is bfloat16,
    and head_dim_v 512. Other caches of 8 bits are an error, also if is_fp8_kvcache promises one. descale_q must be None.
    attn_sink: float32 (heads); out is multiplied by exp(lse) / (exp(lse) + exp(attn_sink)).
    lse: natural logarithm, without attn_sink; +inf if a query sees no key, whose out is 0.
    tile_scheduler_metadata and num_splits are ignored.
    """
    _refuse_second_cache(extra_k_cache, extra_indices_in_kvcache, extra_topk_length)
    _check(q, k_cache, indices, block_table, cache_seqlens, head_dim_v, is_fp8_kvcache, attn_sink, descale_q, descale_k)
    _check_indices(indices, topk_length, causal, q.shape[:2], "batch, seqlen_q")
    if k_cache.dtype == torch.uint8 and k_cache.shape[-1] == _LATENT_ROW:
        k_cache = k_cache.view(torch.float8_e4m3fn)
    batch, seqlen_q, heads, _ = q.shape
    if indices is not None:  # each query is a sequence of its own
        q = q.flatten(0, 1)[:, None]
        k_cache, block_table = _rows_of(k_cache, indices.flatten(0, 1))
        cache_seqlens = None if topk_length is None else topk_length.repeat_interleave(seqlen_q)
    factor = None if descale_k is None else descale_k.reshape(1, 1).expand(q.shape[0], k_cache.shape[2])
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, k_descale=factor, v_descale=factor)
    sequences: dict[str, Any] = dict(seqused_k=cache_seqlens, page_table=block_table, missing_pages=indices is not None)
    options = make_options(causal, (-1, -1), **numbers, **sequences)
    out, lse = attend(q, k_cache, k_cache[..., :head_dim_v], options, False, True)
    _apply_sink(out, lse, attn_sink)
    if indices is None:
        return out, lse
    return out.view(batch, seqlen_q, heads, head_dim_v), lse.view(batch, seqlen_q, heads).transpose(1, 2)


@_mistakes.explained
@torch.no_grad()
def flash_mla_sparse_fwd(
    q: Any,
    kv: Any,
    indices: Any,
    sm_scale: float,
    d_v: int = 512,
    attn_sink: Any = None,
    topk_length: Any = None,
) -> tuple[Any, Any, Any]:
    """Returns (out (seqlen_q, heads, d_v), max_logits and lse, float32 (seqlen_q, heads)) of queries with keys of their own. No
    gradient.

    q: (seqlen_q, heads, head_dim), float16 or bfloat16; kv: (seqlen_k, 1, head_dim), whose first d_v columns are the values.
    indices: int32 (seqlen_q, 1, topk), rows of kv; no key if out of range, as -1 is. topk_length: int32 (seqlen_q): how many of
    a query's indices count.
    attn_sink: float32 (heads); out is multiplied by exp(lse) / (exp(lse) + exp(attn_sink)). max_logits: the largest score, -inf
    for a query without a key. lse: natural logarithm; neither has attn_sink in it. +inf if a query sees no key, whose out is 0.
    """
    _check(q, kv, indices, None, None, d_v, False, attn_sink, None, None)
    if kv.ndim == 3 and kv.shape[1] != 1:
        raise NotImplementedError(f"kv.shape = {tuple(kv.shape)}, must be (seqlen_k, 1, head_dim): all heads share the keys of a query")
    _check_indices(indices, topk_length, False, (q.shape[0], 1), "seqlen_q, 1")
    max_logits = q.new_empty(q.shape[:2], dtype=torch.float32)
    sequences: dict[str, Any] = dict(page_table=indices[:, 0], seqused_k=topk_length, missing_pages=True)
    options = make_options(False, (-1, -1), softmax_scale=sm_scale, max_logits=max_logits, **sequences)
    pages = kv[:, None]
    out, lse = attend(q[:, None], pages, pages[..., :d_v], options, False, True)
    _apply_sink(out, lse, attn_sink)
    return out[:, 0], max_logits, lse[..., 0]


def _rows_of(k_cache: Any, indices: Any) -> tuple[Any, Any]:
    """Returns (a view of the cache as pages of one row, the same keys' indices in it)."""
    pages, page_size, heads_kv, columns = k_cache.shape
    of_page, of_row, of_head, _ = k_cache.stride()
    if page_size == 1:
        return k_cache, indices
    if of_page % of_row != 0:
        raise NotImplementedError(
            f"k_cache.stride() = {k_cache.stride()}, with indices pages must lie whole rows apart: {of_page} is no multiple of {of_row}"
        )
    distance = of_page // of_row  # of pages, in rows
    if distance != page_size:
        exist = (indices >= 0) & (indices < pages * page_size)
        indices = torch.where(exist, indices // page_size * distance + indices % page_size, -1)
    rows = (pages - 1) * distance + page_size if pages > 0 else 0
    return k_cache.as_strided((rows, 1, heads_kv, columns), (of_row, of_row, of_head, 1)), indices


def _apply_sink(out: Any, lse: Any, attn_sink: Any) -> None:
    """Multiplies out (batch, seqlen_q, heads, head_dim_v) by exp(lse) / (exp(lse) + exp(attn_sink)), for all magnitudes."""
    if attn_sink is None:
        return
    # An empty row stays 0 whatever its factor is.
    factors = (lse.masked_fill(lse == torch.inf, 0) - attn_sink[:, None]).sigmoid()
    out.mul_(factors.transpose(1, 2)[..., None])


def _refuse_second_cache(extra_k_cache: Any, extra_indices: Any, extra_topk_length: Any) -> None:
    arguments = dict(extra_k_cache=extra_k_cache, extra_indices_in_kvcache=extra_indices, extra_topk_length=extra_topk_length)
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise NotImplementedError(
            f"{', '.join(given)} = given, must be None: fa2 reads one cache. Call this function once per cache, without attn_sink, and "
            "combine the results with fa2.merge()"
        )


def _check_indices(indices: Any, topk_length: Any, causal: bool, queries: tuple[int, ...], names: str) -> None:
    """Raises if the lists of keys are wrong. `queries`: the dimensions before topk, and `names` theirs."""
    if indices is None:
        if topk_length is not None:
            raise _mistakes.invalid_request(["topk_length = given, must be None without indices, whose number it is"])
        return
    wrong = []
    if indices.dtype != torch.int32 or indices.ndim != 3 or tuple(indices.shape[:2]) != tuple(queries):
        shape = ", ".join(str(n) for n in queries)
        wrong.append(f"indices = {indices.dtype} {tuple(indices.shape)}, must be torch.int32 ({shape}, topk) = ({names}, topk)")
    if topk_length is not None and tuple(topk_length.shape) != (queries[0],):
        wrong.append(f"topk_length = {tuple(topk_length.shape)}, must be ({queries[0]},) = ({names.split(',')[0]})")
    if causal:
        wrong.append("causal = True, must be False with indices, which say what a query sees")
    if wrong:
        raise _mistakes.invalid_request(wrong)


def _check(
    q: Any,
    k_cache: Any,
    indices: Any,
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
    if k_cache.itemsize == 1 and k_cache.shape[-1] not in (columns, _LATENT_ROW):
        raise NotImplementedError(
            f"k_cache.shape = {tuple(k_cache.shape)}, must have q's {columns} columns, or rows of {_LATENT_ROW} bytes: fa2 reads no others "
            "with factors of their own. Pass float8_e4m3fn with one factor, descale_k, or 16 bits"
        )
    wrong = []
    if indices is None and (block_table is None or cache_seqlens is None):
        wrong.append("block_table, cache_seqlens = None, must be given: they say which rows count")
    if not 0 < head_dim_v <= k_cache.shape[-1]:
        wrong.append(f"head_dim_v = {head_dim_v}, must be in 1..{k_cache.shape[-1]}: values are columns of k_cache")
    if is_fp8_kvcache and k_cache.itemsize != 1:
        wrong.append(f"is_fp8_kvcache = True, must be False with k_cache of {k_cache.dtype}")
    if attn_sink is not None and (attn_sink.shape != (heads,) or attn_sink.dtype != torch.float32):
        wrong.append(f"attn_sink = {attn_sink.dtype} {tuple(attn_sink.shape)}, must be torch.float32 {(heads,)} = (heads)")
    if descale_q is not None:
        wrong.append("descale_q = given, must be None: q has 16 bits")
    has_factors = k_cache.itemsize != 1 or k_cache.shape[-1] != columns
    if descale_k is not None and (has_factors or descale_k.numel() != 1):
        wrong.append(f"descale_k = {tuple(descale_k.shape)}, must be (1) with k_cache of float8_e4m3fn, and None with {q.dtype}")
    if wrong:
        raise _mistakes.invalid_request(wrong)
