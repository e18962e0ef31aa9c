"""Hugging Face transformers on fa2's kernels.

    import fa2.transformers
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation=fa2.transformers.register())

Models call attend() in every layer, and once a forward find_lengths() for their mask.
"""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface

from ._attention import attend
from ._lengths import find_lengths

__all__ = ["attend", "find_lengths", "register"]


def register(name: str = "fa2") -> str:
    """Makes `attn_implementation=name` mean fa2 for every model of this process, and returns the name.

    Attention and mask are registered both, also as "paged|" + name. May be called any number of times. A name with
    "flash" in it is an error: transformers takes such names for FlashAttention's packages.
    """
    if "flash" in name:
        raise ValueError(f'transformers would look for the package FlashAttention under the name "{name}"')
    for key in (name, f"paged|{name}"):
        AttentionInterface.register(key, attend)
        AttentionMaskInterface.register(key, find_lengths)
    return name
