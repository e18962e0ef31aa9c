"""Sequences that are packed into the rows of a batch one after the other, which positions tell.

Their mask is int32 (1, longest, 1, sequences + 1): where each begins and the last one ends, of all rows of the batch,
and how long one may be. In traced models, where the number of sequences would be data, it is (1, 1, 1, 1): how many
begin within a row of the batch, which must be 0 where they are not given by cu_seq_lens_q.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def find_packed(
    mask_function: Callable[..., Any], batch: int, length: int, device: torch.device | str
) -> torch.Tensor | None:
    """None where nothing is packed. A sequence begins where the row before is not seen; looked at once a forward."""
    entry = torch.arange(batch, device=device)[:, None]
    place = torch.arange(1, length, device=device)[None]
    begins = ~mask_function(entry, torch.zeros_like(entry), place, place - 1).expand(batch, -1)
    if torch.compiler.is_compiling():
        count: torch.Tensor = begins.sum(dtype=torch.int32)
        return count[None, None, None, None]
    pad = torch.nn.functional.pad
    borders = pad(pad(begins, (1, 0), value=True).flatten().nonzero().flatten(), (0, 1), value=batch * length)
    if borders.numel() == batch + 1:
        return None
    longest = int(borders.diff().max())
    return borders.to(torch.int32).expand(1, longest, 1, -1)


def is_packed(mask: torch.Tensor) -> bool:
    return mask.shape[2] == 1


def read_packed(mask: torch.Tensor) -> tuple[torch.Tensor | None, int]:
    """(cu_seqlens, the longest sequence); None where each row of the batch is a sequence."""
    if mask.shape[3] > 1:
        return mask[0, 0, 0], mask.shape[1]
    torch._assert_async(mask == 0, "fa2: traced models take packed sequences by cu_seq_lens_q, not by position_ids")
    return None, 0
