"""Turns padded batches into packed sequences and back, as flash_attn.bert_padding does. All functions are differentiable."""

from __future__ import annotations

from typing import Any

import torch


def index_first_axis(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Returns the rows `indices`, (found), of x (rows, ...): (found, ...)."""
    return x.index_select(0, indices)


def index_first_axis_residual(x: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns index_first_axis(), and x itself for a residual connection."""
    return x.index_select(0, indices), x


def index_put_first_axis(values: torch.Tensor, indices: torch.Tensor, first_axis_dim: int) -> torch.Tensor:
    """Returns zeros (first_axis_dim, ...) with values (found, ...) in the rows `indices`, which must be distinct."""
    return values.new_zeros(first_axis_dim, *values.shape[1:]).index_copy(0, indices, values)


def _pack(hidden_states: torch.Tensor, mask: torch.Tensor, seqlens: torch.Tensor) -> tuple[Any, Any, Any, int]:
    """Returns (rows where mask is true, their indices, int32 cu_seqlens, max_seqlen). Waits for the device."""
    indices = mask.flatten().nonzero().flatten()
    cu_seqlens = torch.nn.functional.pad(seqlens.cumsum(0, dtype=torch.int32), (1, 0))
    longest = int(seqlens.max()) if seqlens.numel() else 0
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, cu_seqlens, longest


def unpad_input(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, unused_mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor]:
    """Returns the rows of a padded batch that count: (packed, indices, cu_seqlens, max_seqlen, seqused).

    hidden_states: (batch, seqlen, ...); attention_mask: (batch, seqlen), bool or 0 and 1. unused_mask: rows that
    are packed but do not count. packed: (total, ...); indices: (total), rows of the flattened batch; cu_seqlens: int32
    (batch + 1); max_seqlen: an int, which waits for the device; seqused: int32 (batch), rows that count.
    """
    placed = attention_mask if unused_mask is None else attention_mask + unused_mask
    seqused = attention_mask.sum(-1, dtype=torch.int32)
    return *_pack(hidden_states, placed, placed.sum(-1, dtype=torch.int32)), seqused


def unpad_input_for_concatenated_sequences(
    hidden_states: torch.Tensor, attention_mask_in_length: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Packs rows that hold several sequences each: (packed, indices, cu_seqlens, max_seqlen), with an entry per sequence.

    hidden_states: (batch, seqlen, ...); attention_mask_in_length: int (batch, seqlen), the lengths of a row's
    sequences one after another, then zeros: [2, 3, 0, 0, 0, 0] is one of 2, one of 3 and a row of padding.
    """
    filled = attention_mask_in_length.sum(-1, keepdim=True)
    mask = torch.arange(attention_mask_in_length.shape[-1], device=filled.device) < filled
    return _pack(hidden_states, mask, attention_mask_in_length[attention_mask_in_length > 0].to(torch.int32))


def pad_input(hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """Returns what unpad_input() packed, (total, ...), as (batch, seqlen, ...) with zeros in the padding."""
    rows = index_put_first_axis(hidden_states, indices, batch * seqlen)
    return rows.reshape(batch, seqlen, *hidden_states.shape[1:])
