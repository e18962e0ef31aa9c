"""A typical user program of flash_attn, which does not know fa2: `python flash_attn_program.py [cpu|cuda]`."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions

import flash_attn_interface
import torch
from flash_attn import __version__, flash_attn_func, flash_attn_varlen_qkvpacked_func, flash_attn_with_kvcache
from flash_attn.bert_padding import pad_input, unpad_input
from flash_attn.flash_attn_interface import _flash_attn_forward, _get_block_size_n
from flash_attn.layers.rotary import RotaryEmbedding


class Attention(torch.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.rotary = RotaryEmbedding(width // heads)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        qkv = self.rotary(self.project(x).unflatten(-1, (3, self.heads, -1)))
        packed, indices, cu_seqlens, longest, _ = unpad_input(qkv, mask)
        out = flash_attn_varlen_qkvpacked_func(packed, cu_seqlens, longest, 0.1 * self.training, causal=True)
        return self.out(pad_input(out, indices, *x.shape[:2]).flatten(2))


def main(device: str) -> None:
    assert __version__.startswith("2.8.4")
    assert "flash-attn" in [x.replace("_", "-") for x in packages_distributions()["flash_attn"]]
    torch.manual_seed(0)
    layer = Attention(128, 2).to(device, torch.bfloat16)
    x = torch.randn(2, 24, 128, dtype=torch.bfloat16, device=device)
    mask = torch.arange(24, device=device) < torch.tensor([[24], [17]], device=device)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        loss = (layer(x, mask) - x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0], losses

    q, k, v = (torch.randn(2, 24, 2, 64, dtype=torch.bfloat16, device=device) for _ in range(3))
    whole = flash_attn_func(q, k, v, causal=True)
    k_cache, v_cache = torch.zeros_like(k), torch.zeros_like(v)
    first = flash_attn_with_kvcache(q[:, :16], k_cache, v_cache, k[:, :16], v[:, :16], cache_seqlens=0, causal=True)
    rest = flash_attn_with_kvcache(q[:, 16:], k_cache, v_cache, k[:, 16:], v[:, 16:], cache_seqlens=16, causal=True)
    torch.testing.assert_close(torch.cat((first, rest), 1), whole, atol=1e-2, rtol=1e-2)
    again, lse = flash_attn_interface.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    assert torch.equal(again, whole) and lse.shape == (2, 2, 24)
    assert torch.equal(_flash_attn_forward(q, k, v, 0.0, 0.125, True, -1, -1, 0.0, None, False)[0], whole)
    assert _get_block_size_n(q.device, 64, False, True) > 0
    print("ok", __version__, [round(x, 4) for x in losses])


main(*(sys.argv[1:] or ["cpu"]))
