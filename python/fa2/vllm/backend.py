"""vLLM's FlashAttention backend on fa2's kernels. Imported only if CUSTOM was chosen.

The backend rejects what fa2 does not compute when it is selected or a model is built, never in a request: KV caches of other
types than 16 bits and float8_e4m3fn, head dims above 512, multimodal prefixes, reference windows, and diffusion models, which
mix masks in a batch. Queries keep their 16 bits with caches of 8.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from vllm.v1.attention.backend import AttentionCGSupport
from vllm.v1.attention.backends.flash_attn import (
    FlashAttentionBackend,
    FlashAttentionImpl,
    FlashAttentionMetadataBuilder,
)

from .._padding import MOST_COLUMNS, multiple_of
from .._substitute import refuse, substitute
from . import flash_attn_varlen_func

__all__ = ["Backend", "Builder", "Impl"]

# vLLM's workers do not tell in their environment that they are ranks of one model, and ranks must not measure beside it.
os.environ.setdefault("FA2_TUNE", "stored")

#: KV caches that fa2 reads, by vLLM's words; the last two are float8_e4m3fn.
_CACHES = ["auto", "float16", "bfloat16", "fp8", "fp8_e4m3"]
_EIGHT_BITS = _CACHES[3:]

#: What vLLM's module imports from FlashAttention. Version 0 does not exist: it selects no path of a version, and a call that
#: would reach FlashAttention is an error.
_ANSWERS: dict[str, Any] = dict(
    flash_attn_varlen_func=flash_attn_varlen_func,
    _FA4_DENSE_ATTENTION_KERNEL=flash_attn_varlen_func,
    get_flash_attn_version=lambda *_, **__: 0,
    is_fa_version_supported=lambda _: False,
    is_flash_attn_varlen_func_available=lambda: True,
    flash_attn_supports_kv_cache_dtype=lambda kv_cache_dtype="fp8_e4m3", **__: kv_cache_dtype in _CACHES,
    flash_attn_supports_quant_query_input=lambda: False,
    flash_attn_supports_sinks=lambda: True,
    uses_fa4_hd256_kernel=lambda *_, **__: False,
)
_Impl: Any = substitute(FlashAttentionImpl, **_ANSWERS)
_Builder: Any = substitute(FlashAttentionMetadataBuilder, **_ANSWERS)
_Backend: Any = substitute(FlashAttentionBackend, **_ANSWERS)


class Impl(_Impl):  # type: ignore[misc]
    """Computes a layer's attention. vLLM quantises no queries for it."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.supports_quant_query_input = False


class Builder(_Builder):  # type: ignore[misc]
    """Builds the metadata of a batch. A graph runs only for the number of queries per sequence that it was captured for."""

    _cudagraph_support = AttentionCGSupport.UNIFORM_BATCH

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any) -> None:
        refuse("this model", is_diffusion=getattr(vllm_config.model_config, "is_diffusion", False))
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)


class Backend(_Backend):  # type: ignore[misc]
    """Is AttentionBackendEnum.CUSTOM."""

    supported_kv_cache_dtypes = _CACHES

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
    def supports_head_size(cls, head_size: int) -> bool:
        return head_size % 8 == 0 and head_size <= MOST_COLUMNS

    @classmethod
    def supports_rswa(cls) -> bool:
        return False

    @classmethod
    def supports_per_head_quant_scales(cls) -> bool:
        return True

    @classmethod
    def supports_combination(
        cls, head_size: int, dtype: Any, kv_cache_dtype: str | None, *others: Any, **more: Any
    ) -> str | None:
        if not cls.supports_kv_cache_dtype(kv_cache_dtype):
            return (
                f"kv_cache_dtype = {kv_cache_dtype}, must be float16, bfloat16, or fp8 or fp8_e4m3 for float8_e4m3fn: "
                "pass --kv-cache-dtype auto or fp8, or choose another attention backend"
            )
        if kv_cache_dtype in _EIGHT_BITS and head_size % multiple_of(torch.float8_e4m3fn) != 0:
            return f"head_size = {head_size}, must be a multiple of 16 with kv_cache_dtype = {kv_cache_dtype}: pass --kv-cache-dtype auto"
        return None
