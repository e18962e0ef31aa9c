"""Sequences that follow each other in the rows of a batch. Position ids show where they begin.

Their mask is int32 (1, longest, 1, sequences + 1). Its values are the first row of each sequence and the end of the last,
counted over all rows of the batch. In traced models, shapes must not depend on data, so the mask is (1, 1, 1, 1): how many
sequences begin within a batch row. That must be 0 unless cu_seq_lens_q is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def find_packed(
    mask_function: Callable[..., Any], batch: int, length: int, device: torch.device | str
) -> torch.Tensor | None:
    """Returns the mask, None if nothing is packed. A sequence begins at a row that does not see the row before it."""
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
    """Returns (cu_seqlens, longest sequence); cu_seqlens is None if each batch row is one sequence."""
    if mask.shape[3] > 1:
        return mask[0, 0, 0], mask.shape[1]
    torch._assert_async(mask == 0, "fa2: traced models take packed sequences by cu_seq_lens_q, not by position_ids")
    return None, 0
