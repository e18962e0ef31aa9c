"""vLLM's FlashAttention backend on fa2's kernels. Imported only if CUSTOM was chosen.

The backend rejects what fa2 does not compute when it is selected or a model is built, never in a request: KV caches in
float8, head dims above 256, multimodal prefixes, reference windows, and diffusion models, which mix masks in a batch.
"""

from __future__ import annotations

import os
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

# vLLM's workers do not tell in their environment that they are ranks of one model, and ranks must not measure beside it.
os.environ.setdefault("FA2_TUNE", "stored")

#: What vLLM's module imports from FlashAttention. Version 0 does not exist: it selects no path of a version, and a call that
#: would reach FlashAttention is an error.
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
    """Builds the metadata of a batch. A graph runs only for the number of queries per sequence that it was captured for."""

    _cudagraph_support = AttentionCGSupport.UNIFORM_BATCH

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any) -> None:
        refuse("this model", is_diffusion=getattr(vllm_config.model_config, "is_diffusion", False))
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)


class Backend(_Backend):  # type: ignore[misc]
    """Is AttentionBackendEnum.CUSTOM."""

    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16"]

    @staticmethod
    def get_name() -> str:
        """Returns a name of AttentionBackendEnum, as vLLM requires."""
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
        return f"kv_cache_dtype = {kv_cache_dtype}, must be float16 or bfloat16: pass --kv-cache-dtype auto, or choose another attention backend"
