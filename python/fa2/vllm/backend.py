"""vLLM's FlashAttention backend on fa2's kernels, which vLLM imports where CUSTOM was chosen.

What fa2 does not compute is refused when the backend is selected or a model built, never by a request: KV caches in
float8, head dims above 256, multimodal prefixes, reference windows, and diffusion models, which mix masks in a batch.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.attention.backend import AttentionCGSupport
from vllm.v1.attention.backends.flash_attn import (
    FlashAttentionBackend,
    FlashAttentionImpl,
    FlashAttentionMetadataBuilder,
)

from .._substitute import refuse, substitute
from . import flash_attn_varlen_func

__all__ = ["Backend", "Builder", "Impl"]

#: What vLLM's module asks of FlashAttention. A version that there is not takes no path of a version's own, and makes a call
#: that would reach FlashAttention after all an error.
_ANSWERS: dict[str, Any] = dict(
    flash_attn_varlen_func=flash_attn_varlen_func,
    _FA4_DENSE_ATTENTION_KERNEL=flash_attn_varlen_func,
    get_flash_attn_version=lambda *_, **__: 0,
    is_fa_version_supported=lambda _: False,
    is_flash_attn_varlen_func_available=lambda: True,
    flash_attn_supports_kv_cache_dtype=lambda *_, **__: False,
    flash_attn_supports_sinks=lambda: True,
    uses_fa4_hd256_kernel=lambda *_, **__: False,
)
Impl: Any = substitute(FlashAttentionImpl, **_ANSWERS)
_Builder: Any = substitute(FlashAttentionMetadataBuilder, **_ANSWERS)
_Backend: Any = substitute(FlashAttentionBackend, **_ANSWERS)


class Builder(_Builder):  # type: ignore[misc]
    """The metadata of a batch. A graph is launched for as many queries a sequence as it was captured for, no more."""

    _cudagraph_support = AttentionCGSupport.UNIFORM_BATCH

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any) -> None:
        refuse("this model", is_diffusion=getattr(vllm_config.model_config, "is_diffusion", False))
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)


class Backend(_Backend):  # type: ignore[misc]
    """AttentionBackendEnum.CUSTOM."""

    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16"]

    @staticmethod
    def get_name() -> str:
        """A name of AttentionBackendEnum, as vLLM wants it."""
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> Any:
        return Impl

    @staticmethod
    def get_builder_cls() -> type[Builder]:
        return Builder

    @classmethod
    def supports_rswa(cls) -> bool:
        return False

    @classmethod
    def supports_combination(
        cls, head_size: int, dtype: Any, kv_cache_dtype: str | None, *others: Any, **more: Any
    ) -> str | None:
        if cls.supports_kv_cache_dtype(kv_cache_dtype):
            return None
        return f"fa2 has no KV cache of {kv_cache_dtype}: --kv-cache-dtype auto, or another attention backend"
