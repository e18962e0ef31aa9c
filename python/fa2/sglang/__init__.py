"""SGLang on fa2's kernels: `sglang serve --model-path MODEL --attention-backend fa2`.

SGLang itself calls register() if fa2 is installed, by the entry point of group sglang.srt.plugins. Nothing changes until
the backend is chosen on the command line. docs/python.md lists what is supported.
"""

from __future__ import annotations

from typing import Any

from .._attention import attention
from .._substitute import descales, refuse

__all__ = ["flash_attn_varlen_func", "flash_attn_with_kvcache", "register"]


def register(name: str = "fa2") -> str:
    """Makes `--attention-backend name` mean fa2 in this process, and returns the name. May be called any number of times.

    Raises ValueError for a name that SGLang has itself.
    """
    from sglang.srt import server_args
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS, register_attention_backend

    if ATTENTION_BACKENDS.get(name, _create) is not _create:
        raise ValueError(f'name = "{name}", must not be the name of a backend that SGLang has')
    register_attention_backend(name)(_create)
    if name not in server_args.ATTENTION_BACKEND_CHOICES:
        server_args.add_attention_backend_choices([name])
    chunked = getattr(server_args, "CHUNKED_PREFIX_CACHE_SUPPORTED_ATTENTION_BACKENDS", [])
    if name not in chunked:
        chunked.append(name)  # read while SGLang resolves its arguments; of models with latent attention
    return name


def _create(runner: Any) -> Any:
    """Makes the backend for a ModelRunner. SGLang calls this if fa2 was chosen."""
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS

    from .backend import Backend, serve_latents

    if runner.use_mla_backend:
        serve_latents([name for name, made in ATTENTION_BACKENDS.items() if made is _create])
    return Backend(runner)


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    *,
    seqused_k: Any = None,
    page_table: Any = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    sinks: Any = None,
    out: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    qv: Any = None,
    ver: int = 3,
    **others: Any,
) -> Any:
    """Replaces SGLang's flash_attn_varlen_func. Returns out (total_q, heads, head_dim_v), or (out, lse (heads, total_q)).

    q: (total_q, heads, head_dim); k and v: (total_k, heads_kv, ...), or pages with page_table and seqused_k. num_splits: 1
    requests bits that do not depend on the batch. k and v may be float8_e4m3fn: k_descale and v_descale, float32 (batch,
    heads_kv) or with 1 for any batch and heads, are then their factors, which are ignored with k and v of 16 bits. So is ver. qv: latent attention (MLA)
    with the scores q k^T + qv v^T, as in fa2.flash_attn_3_interface; both factors must be one tensor. Any other argument must be
    None, else NotImplementedError. Raises as attention() does.
    """
    refuse("SGLang", **others)
    if qv is not None:
        from .._latent import join_tensors

        factors = (None, None) if k.dtype == q.dtype else (k_descale, v_descale)
        q, k, v = join_tensors(q, k, v, qv, *factors)
    return attention(
        q,
        k,
        v,
        causal=causal,
        softmax_scale=softmax_scale,
        window_size=window_size,
        softcap=softcap,
        sinks=sinks,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        seqused_k=seqused_k,
        page_table=page_table,
        out=out,
        return_lse=return_softmax_lse,
        batch_invariant=num_splits == 1,
        **descales(q, k, k_descale, v_descale, len(cu_seqlens_q) - 1),
    )


def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    *,
    page_table: Any,
    cache_seqlens: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k_new: Any = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    scheduler_metadata: Any = None,
    **options: Any,
) -> Any:
    """Replaces SGLang's flash_attn_with_kvcache: attention over the pages of a cache that SGLang has written.

    k_cache, v_cache: (pages, page_size, heads_kv, ...); page_table: int32 (batch, pages per sequence); cache_seqlens:
    int32 (batch). cu_seqlens_k_new and scheduler_metadata are ignored.
    """
    return flash_attn_varlen_func(
        q,
        k_cache,
        v_cache,
        cu_seqlens_q,
        None,
        max_seqlen_q,
        max_seqlen_k,
        seqused_k=cache_seqlens,
        page_table=page_table,
        **options,
    )
