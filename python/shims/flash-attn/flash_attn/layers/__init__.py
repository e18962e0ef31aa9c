"""Layers of flash_attn that fa2 has: rotary."""
