"""The mask of a forward: which keys count of each sequence of the batch, in numbers that kernels read on the device.

What find_lengths() returns travels through models as their mask, so it has four dimensions and is known by its dtype,
int32: (1, 1, 2, batch) if keys count from the first on, else (1, 1, 4, batch + 1), whose rows are those of Lengths, and
twice the same where attention has no direction, (1, 2, ...); or of packed sequences what _packing has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionMaskInterface
from transformers.masking_utils import causal_mask_function

from ._packing import find_packed

#: What attend() computes from lengths, `is_causal` and `sliding_window`: the functions of transformers.masking_utils
#: that a mask may be made of.
_KNOWN = frozenset(
    (
        "bidirectional_mask_function",
        "causal_mask_function",
        "packed_sequence_mask_function",
        "sliding_window_bidirectional_overlay",
        "sliding_window_overlay",
    )
)


class Lengths:
    """What a mask says, int32 (batch), but `start` and `entry` (batch + 1): the last one is the end of the last sequence."""

    def __init__(
        self,
        used_q: torch.Tensor | None,
        used_k: torch.Tensor,
        start: torch.Tensor | None = None,
        entry: torch.Tensor | None = None,
    ) -> None:
        self.used_q = used_q  #: rows of q that count, the last of which sees the last key that counts; None: all
        self.used_k = used_k  #: keys that count
        self.start = start  #: the first of them; None: 0
        self.entry = entry  #: of the batch: 0, 1, ...
        self._borders: tuple[int, torch.Tensor] | None = None

    @classmethod
    def of_mask(cls, mask: torch.Tensor) -> Lengths:
        known: Lengths | None = None if torch.compiler.is_compiling() else getattr(mask, _KEPT, None)
        if known is not None:
            return known
        rows = mask[0, 0].unbind(0)
        if len(rows) == 2:
            return cls(*rows)
        return cls(rows[0][:-1], rows[1][:-1], rows[2], rows[3])

    def borders(self, apart: int) -> torch.Tensor:
        """Where sequences begin in rows of which the batch's entries are `apart` apart; computed by the first layer that asks."""
        assert self.start is not None and self.entry is not None
        if self._borders is None or self._borders[0] != apart:
            self._borders = apart, torch.add(self.start, self.entry, alpha=apart)
        return self._borders[1]


#: Masks that this process made have their Lengths under this name, so that layers need not take them apart.
_KEPT = "fa2_lengths"


def are_lengths(mask: torch.Tensor | None) -> bool:
    return mask is not None and mask.dtype == torch.int32 and mask.ndim == 4 and mask.shape[0] == 1


def are_causal(lengths: torch.Tensor) -> bool:
    return lengths.shape[1] == 1


def _parts_of(mask_function: Callable[..., Any]) -> set[str]:
    """The names of the functions of transformers.masking_utils that a mask is made of."""
    name = getattr(mask_function, "__qualname__", "").split(".")[0]
    inner: Any = ()
    if name == "and_masks":
        inner = _captured(mask_function, "mask_functions")
    elif name == "remap_positions_for_packed_sequence":
        inner = (_captured(mask_function, "mask_function"),)
    return set().union(*map(_parts_of, inner)) if inner else {name}


def _traced_parts_of(
    mask_function: Callable[..., Any],
    local_size: int | None,
    config: Any,
    may_be_packed: bool,
    others: dict[str, Any],
) -> set[str]:
    """As _parts_of(), by what torch.compile lets be seen: what functions have captured is not."""
    if others.get("use_vmap"):
        return {"a function of the model"}
    if local_size is not None and local_size == getattr(config, "attention_chunk_size", None):
        return {"chunked_overlay"}
    if mask_function.__name__ not in ("and_mask", "causal_mask_function", "bidirectional_mask_function"):
        return {mask_function.__name__}
    if "allow_is_bidirectional_skip" not in others:
        return {"causal_mask_function"} | ({"packed_sequence_mask_function"} if may_be_packed else set())
    return {"bidirectional_mask_function"} | ({"sliding_window_bidirectional_overlay"} if local_size else set())


def _captured(function: Callable[..., Any], variable: str) -> Any:
    place = function.__code__.co_freevars.index(variable)
    return (function.__closure__ or ())[place].cell_contents


def _may_read(tensor: torch.Tensor) -> bool:
    """Whether Python may look at the values: not in what is traced or captured."""
    if torch.compiler.is_compiling() or type(tensor) is not torch.Tensor:
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def find_lengths(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | torch.Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    config: Any = None,
    local_size: int | None = None,
    device: torch.device | str = "cpu",
    **others: Any,
) -> torch.Tensor | None:
    """The mask function: None where every key counts, lengths, or what sdpa's would make of a pattern of another kind.

    The arguments are transformers': key j of the kv_length has position kv_offset + j, query i has q_offset + i, and
    attention_mask (batch, positions) says which positions count, those after its end do not. The values are read once
    a forward, and not at all while a graph is traced or captured: gaps in a mask are then a device-side assertion.
    """
    if are_lengths(attention_mask):  # generate() makes masks before the model does
        return attention_mask
    if torch.compiler.is_compiling():
        may_be_packed = mask_function.__name__ == "and_mask" and q_length == kv_length > 1
        parts = _traced_parts_of(mask_function, local_size, config, may_be_packed, others)
    else:
        parts = _parts_of(mask_function)
    if local_size is not None and kv_length + kv_offset <= local_size:
        parts.discard("chunked_overlay")  # one chunk alone

    def make_pattern() -> torch.Tensor:
        made: torch.Tensor = AttentionMaskInterface()["sdpa"](
            batch_size=batch_size,
            q_length=q_length,
            kv_length=kv_length,
            q_offset=q_offset,
            kv_offset=kv_offset,
            mask_function=mask_function,
            attention_mask=attention_mask,
            config=config,
            local_size=local_size,
            device=device,
            **{**others, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False},
        )
        return made

    is_local = "sliding_window_bidirectional_overlay" in parts
    if not parts <= _KNOWN or (is_local and q_length != kv_length):
        return make_pattern()
    if attention_mask is None and "packed_sequence_mask_function" in parts:
        return find_packed(mask_function, batch_size, q_length, device)
    causal = "causal_mask_function" in parts
    end = q_offset + q_length - kv_offset if causal else kv_length  # of the keys that any query sees
    if attention_mask is None:
        if isinstance(end, int) and end == kv_length:
            return None
        used_k = torch.zeros(batch_size, dtype=torch.int32, device=device) + end
        used_q = torch.full_like(used_k, q_length)
        return _as_mask((used_q, used_k), causal)

    counts = _keys_that_count(attention_mask, kv_length, kv_offset)
    if may_read := _may_read(counts):
        # The little that there is to compute is done before the GPU would have taken the first of its launches.
        counts, q_offset = counts.cpu(), int(q_offset)
        end = q_offset + q_length - kv_offset if causal else kv_length
    if causal:
        counts = counts & (torch.arange(kv_length, device=counts.device) < end)
    used_k = counts.sum(-1, dtype=torch.int32)
    start = counts.to(torch.uint8).argmax(-1).to(torch.int32)
    stop = kv_length - counts.flip(-1).to(torch.uint8).argmax(-1).to(torch.int32)
    stop = torch.where(used_k > 0, stop, start)
    gapless = (stop - start == used_k).all()
    if causal:
        used_q = (stop + (kv_offset - q_offset)).clamp(0, q_length).to(torch.int32)
    elif q_length == kv_length and (is_local or not _attends_to_others(config)):
        used_q = stop
    else:
        used_q = torch.full_like(stop, q_length)
    if not may_read:
        torch._assert_async(gapless, "fa2: an attention mask has gaps, which is not for traced models")
        return _as_mask(_with_starts(used_q, used_k, start, kv_length), causal)
    if not gapless:
        return make_pattern()
    all_queries = bool((used_q == q_length).all())
    if all_queries and (used_k == kv_length).all():
        return None
    rows = (used_q, used_k) if (start == 0).all() else _with_starts(used_q, used_k, start, kv_length)
    mask = _as_mask(rows, causal).to(attention_mask.device)
    lengths = Lengths.of_mask(mask)
    if all_queries:
        lengths.used_q = None
    setattr(mask, _KEPT, lengths)
    return mask


def _keys_that_count(attention_mask: torch.Tensor, kv_length: int, kv_offset: int) -> torch.Tensor:
    """bool (batch, kv_length)."""
    present = attention_mask[:, kv_offset : kv_offset + kv_length].bool()
    return torch.nn.functional.pad(present, (0, kv_length - present.shape[1]))


def _attends_to_others(config: Any) -> bool:
    """Whether a mask without direction may be that of keys of another sequence, and says nothing of queries."""
    return bool(getattr(config, "is_encoder_decoder", False) or getattr(config, "add_cross_attention", False))


def _with_starts(used_q: Any, used_k: Any, start: Any, kv_length: int) -> tuple[torch.Tensor, ...]:
    batch = start.shape[0]
    entry = torch.arange(batch + 1, dtype=torch.int32, device=start.device).clamp(max=batch - 1)
    pad = torch.nn.functional.pad
    return pad(used_q, (0, 1)), pad(used_k, (0, 1)), pad(start, (0, 1), value=kv_length), entry


def _as_mask(rows: tuple[torch.Tensor, ...], causal: bool) -> torch.Tensor:
    return torch.stack(rows).expand(1, 1 if causal else 2, -1, -1)
