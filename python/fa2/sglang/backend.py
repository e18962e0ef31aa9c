"""SGLang's FlashAttention backend on fa2's kernels. Imported only if fa2 was chosen."""

from __future__ import annotations

import os
from typing import Any

from sglang.srt.layers.attention.flashattention_backend import FlashAttentionBackend

from .. import InvalidRequest
from .._substitute import substitute
from . import flash_attn_varlen_func, flash_attn_with_kvcache

__all__ = ["Backend"]

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
        self.fa_impl_ver = 0  # no such version exists, so that a call which would reach FlashAttention is an error


def _check(runner: Any) -> None:
    dtype, head_dim = str(runner.kv_cache_dtype).removeprefix("torch."), runner.model_config.head_dim
    wrong = []
    if runner.use_mla_backend:
        wrong.append("use_mla_backend = True, must be False: multi-head latent attention is not supported")
    if dtype not in ("float16", "bfloat16"):
        wrong.append(f"kv_cache_dtype = {dtype}, must be float16 or bfloat16: pass --kv-cache-dtype auto")
    if head_dim % 8 != 0 or head_dim > 256:
        wrong.append(f"head_dim = {head_dim}, must be a multiple of 8 up to 256")
    if wrong:
        raise InvalidRequest("\n  ".join(("fa2 cannot be SGLang's attention backend, choose another --attention-backend:", *wrong)))
