"""Hugging Face transformers on fa2's kernels.

    import fa2.transformers
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation=fa2.transformers.register())

Models call find_lengths() once per forward for their mask, and attend() in every layer.
"""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from ._attention import attend
from ._lengths import find_lengths

__all__ = ["attend", "find_lengths", "register"]


def register(name: str = "fa2") -> str:
    """Makes `attn_implementation=name` mean fa2 for every model of this process, and returns the name.

    Registers attention and mask, also as "paged|" + name. May be called any number of times. A name that contains
    "flash" is an error, because transformers takes it for one of FlashAttention's packages.
    """
    if "flash" in name:
        raise ValueError(f'name = "{name}", must not contain "flash": transformers would look for the package FlashAttention')
    for key in (name, f"paged|{name}"):
        AttentionInterface.register(key, attend)
        AttentionMaskInterface.register(key, find_lengths)
    return name
