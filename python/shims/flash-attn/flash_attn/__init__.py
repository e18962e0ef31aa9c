"""flash_attn's names, computed by fa2."""

import importlib.util
from pkgutil import extend_path

if importlib.util.find_spec("flash_attn_2_cuda") is not None:
    raise ImportError(
        "flash_attn is fa2's, but the real flash-attn is installed too (flash_attn_2_cuda): uninstall one of them"
    )
if importlib.util.find_spec("fa2") is None:
    raise ImportError("flash_attn is fa2's, but fa2 is not installed: pip install a wheel of fa2-attention")

__path__ = extend_path(__path__, __name__)  # flash_attn.cute is a distribution of its own
__version__ = "2.8.4+fa2.0.1"

from fa2.flash_attn_interface import (  # noqa: E402
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]
