"""fa2.flash_attn_interface, private names too."""

from fa2 import flash_attn_interface as _interface
from fa2.flash_attn_interface import *  # noqa: F403

__all__ = _interface.__all__
