"""vLLM on fa2's kernels: `vllm serve MODEL --attention-backend CUSTOM`.

vLLM itself calls register() if fa2 is installed, by the entry point of group vllm.general_plugins. Nothing changes until
the backend is chosen on the command line. docs/python.md lists what is supported.
"""

from __future__ import annotations

import warnings
from typing import Any

from .._attention import attention
from .._substitute import descales, refuse

__all__ = ["flash_attn_varlen_func", "register"]

_BACKEND = "fa2.vllm.backend.Backend"


def register() -> None:
    """Makes the attention backend CUSTOM of this process mean fa2. May be called any number of times.

    A new name would not work, because vLLM sends the choice to processes that have not called this yet. If another plug-in
    has taken CUSTOM, or this vLLM takes no backends, a warning says so and vLLM goes on without fa2.
    """
    try:
        from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    except ImportError as error:
        warnings.warn(f"fa2 cannot be vLLM's attention backend, this vLLM takes none: {error}", stacklevel=2)
        return
    custom = AttentionBackendEnum.CUSTOM
    if custom.is_overridden() and custom.get_path() != _BACKEND:
        warnings.warn(f"fa2 is not vLLM's backend CUSTOM, which is {custom.get_path()}: VLLM_PLUGINS=fa2 chooses", stacklevel=2)
        return
    register_backend(custom, _BACKEND)


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    max_seqlen_q: int,
    cu_seqlens_q: Any,
    max_seqlen_k: int,
    cu_seqlens_k: Any = None,
    seqused_k: Any = None,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Any = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    block_table: Any = None,
    return_softmax_lse: bool = False,
    out: Any = None,
    num_splits: int = 0,
    s_aux: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    fa_version: int | None = None,
    scheduler_metadata: Any = None,
    **others: Any,
) -> Any:
    """Replaces vllm.vllm_flash_attn.flash_attn_varlen_func. Returns out (total_q, heads, head_dim), or (out, lse (heads, total_q)).

    q: (total_q, heads, head_dim); k and v: (total_k, heads_kv, head_dim) with cu_seqlens_k, or pages (pages, page_size,
    heads_kv, head_dim) of any strides with block_table and seqused_k. window_size: (left, right), None: no bounds.
    k and v may be float8_e4m3fn, a cache or not: k_descale and v_descale, float32 (batch, heads_kv), are then their factors.
    They are ignored with k and v of 16 bits, for which vLLM passes them too, as is q_descale: q has 16 bits.
    num_splits: 1 requests bits that do not depend on the batch; other numbers are ignored. So are fa_version and
    scheduler_metadata. Any other argument must be None, else NotImplementedError. Raises as attention() does.
    """
    refuse("vLLM", **others)
    return attention(
        q,
        k,
        v,
        causal=causal,
        softmax_scale=softmax_scale,
        window_size=(-1, -1) if window_size is None else window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        sinks=s_aux,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        seqused_k=seqused_k,
        page_table=block_table,
        out=out,
        return_lse=return_softmax_lse,
        batch_invariant=num_splits == 1,
        **descales(q, k, k_descale, v_descale, len(cu_seqlens_q) - 1),
    )
