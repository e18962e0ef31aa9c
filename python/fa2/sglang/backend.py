"""SGLang's FlashAttention backend on fa2's kernels. Imported only if fa2 was chosen."""

from __future__ import annotations

import os
from typing import Any

from sglang.srt.layers.attention.flashattention_backend import FlashAttentionBackend

from .. import InvalidRequest
from .._padding import MOST_COLUMNS, multiple_of
from .._substitute import substitute
from . import flash_attn_varlen_func, flash_attn_with_kvcache

__all__ = ["Backend", "serve_latents"]

# SGLang's workers do not tell in their environment that they are ranks of one model, and ranks must not measure beside it.
os.environ.setdefault("FA2_TUNE", "stored")

_FUNCTIONS = dict(flash_attn_varlen_func=flash_attn_varlen_func, flash_attn_with_kvcache=flash_attn_with_kvcache)
_Backend: Any = substitute(FlashAttentionBackend, **_FUNCTIONS)


class Backend(_Backend):  # type: ignore[misc]
    """Raises InvalidRequest, when SGLang starts, for models and KV caches that fa2 does not compute."""

    def __init__(self, model_runner: Any, **options: Any) -> None:
        _check(model_runner)
        super().__init__(model_runner, **options)
        self.flash_attn_varlen_func = flash_attn_varlen_func
        self.flash_attn_with_kvcache = flash_attn_with_kvcache
        self._get_scheduler_metadata = None  # fa2's kernels schedule themselves
        # No such version exists, so that a call which would reach FlashAttention is an error. Latent attention must have one that does.
        self.fa_impl_ver = 3 if model_runner.use_mla_backend else 0

    def prepare_paged_mha_query(self, q: Any, q_rope: Any, k_rope: Any, layer: Any, **sizes: Any) -> tuple[Any, ...]:
        """Returns queries and rotary parts as they are, and the layer's factors of keys and values, (1, 1 or heads).

        SGLang's own method casts queries to the cache's dtype. fa2 reads caches of 8 bits with queries of 16.
        """
        k_scale, v_scale = (None if x is None else x.reshape(1, -1) for x in (layer.k_scale, layer.v_scale))
        return q, q_rope, k_rope, k_scale, v_scale


def serve_latents(names: list[str]) -> None:
    """Tells SGLang's models with multi-head latent attention to call the backends of these names as they call FlashAttention-3's.

    Prompts then attend to keys and values of their own heads, and queries after a cached prefix to latents, whose rotated
    columns and others come apart.
    """
    try:
        from sglang.srt.models.deepseek_common import utils
        from sglang.srt.models.deepseek_common.attention_backend_handler import AttentionBackendRegistry, handle_attention_fa3

        absorbing = utils.FORWARD_ABSORB_CORE_ATTENTION_BACKENDS
    except (ImportError, AttributeError) as error:
        raise InvalidRequest(
            f"use_mla_backend = True, must be False with this SGLang ({error}): update it to 0.5.23, or choose another --attention-backend"
        ) from error
    for name in names:
        AttentionBackendRegistry.register(name, handle_attention_fa3)
        if name not in absorbing:
            absorbing.append(name)


def _check(runner: Any) -> None:
    dtype, head_dim = str(runner.kv_cache_dtype).removeprefix("torch."), runner.model_config.head_dim
    multiple = multiple_of(runner.kv_cache_dtype)
    wrong = []
    if runner.use_mla_backend and dtype not in ("float16", "bfloat16"):
        wrong.append(
            f"kv_cache_dtype = {dtype}, must be of 16 bits with multi-head latent attention, for which SGLang would copy all of "
            "the cache to 16 bits in every layer: pass --kv-cache-dtype auto"
        )
    elif dtype not in ("float16", "bfloat16", "float8_e4m3fn"):
        wrong.append(f"kv_cache_dtype = {dtype}, must be float16, bfloat16 or float8_e4m3fn: pass --kv-cache-dtype auto or fp8_e4m3")
    elif getattr(runner, "kv_cache_dtype_str", dtype) == "mxfp8":
        wrong.append("kv_cache_dtype = mxfp8, must have one factor per layer: pass --kv-cache-dtype auto or fp8_e4m3")
    elif dtype == "float8_e4m3fn" and not hasattr(FlashAttentionBackend, "prepare_paged_mha_query"):
        wrong.append("kv_cache_dtype = float8_e4m3fn, must be of 16 bits with this SGLang, which quantises queries too: update it to 0.5.23")
    if head_dim % multiple != 0 or head_dim > MOST_COLUMNS:
        wrong.append(f"head_dim = {head_dim}, must be a multiple of {multiple} up to {MOST_COLUMNS}")
    if wrong:
        raise InvalidRequest("\n  ".join(("fa2 cannot be SGLang's attention backend, choose another --attention-backend:", *wrong)))
