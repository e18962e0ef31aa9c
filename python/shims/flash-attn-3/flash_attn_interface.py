"""FlashAttention-3's names, computed by fa2."""

import importlib.util

if importlib.util.find_spec("flash_attn_3") is not None:
    raise ImportError(
        "flash_attn_interface is fa2's, but the real flash_attn_3 is installed too: uninstall one of them"
    )
if importlib.util.find_spec("fa2") is None:
    raise ImportError("flash_attn_interface is fa2's, but fa2 is not installed: pip install a wheel of fa2-attention")

from fa2.flash_attn_3_interface import (  # noqa: E402
    flash_attn_combine,
    flash_attn_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
    get_scheduler_metadata,
)

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "get_scheduler_metadata",
]
