"""The mask of a forward as numbers that kernels read on the device: which keys of each sequence count.

Models pass the result of find_lengths() on as their mask, so it has four dimensions. Its dtype, int32, identifies it:
- (1, 1, 2, batch): used_q and used_k of Lengths, if keys count from the first on.
- (1, 1, 4, batch + 1): used_q, used_k, start and entry of Lengths.
- (1, 2, ...): either of these twice, if attention is not causal.
- the form of _packing, if sequences are packed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionMaskInterface
from transformers.masking_utils import causal_mask_function
from transformers.utils import logging

from ..torch_context_parallel import is_active
from ._functions import FunctionMask, text_of
from ._packing import find_packed

_logger = logging.get_logger(__name__)

#: The functions of transformers.masking_utils whose masks attend() computes from lengths, is_causal and sliding_window.
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
    """Lengths and starts of sequences: int32 (batch); `start` and `entry` (batch + 1), with the end of the last sequence."""

    def __init__(
        self,
        used_q: torch.Tensor | None,
        used_k: torch.Tensor,
        start: torch.Tensor | None = None,
        entry: torch.Tensor | None = None,
    ) -> None:
        self.used_q = used_q  #: rows of q that count; the last sees the last key that counts; None: all
        self.used_k = used_k  #: keys that count
        self.start = start  #: the first key that counts; None: 0
        self.entry = entry  #: the batch entries: 0, 1, ...
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
        """Returns the row at which each sequence begins, if the entries of a batch are `apart` rows apart. The first
        layer to call it computes it."""
        assert self.start is not None and self.entry is not None
        if self._borders is None or self._borders[0] != apart:
            self._borders = apart, torch.add(self.start, self.entry, alpha=apart)
        return self._borders[1]


#: The attribute under which masks of this process keep their Lengths, so that layers need not take them apart.
_KEPT = "fa2_lengths"


def are_lengths(mask: torch.Tensor | None) -> bool:
    return mask is not None and mask.dtype == torch.int32 and mask.ndim == 4 and mask.shape[0] == 1


def are_causal(lengths: torch.Tensor) -> bool:
    return lengths.shape[1] == 1


def _parts_of(mask_function: Callable[..., Any]) -> set[str]:
    """Returns the names of the functions of transformers.masking_utils that a mask consists of."""
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
    """Like _parts_of(), for tracing by torch.compile, which hides the variables that functions have captured."""
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
    """Returns whether Python may read the values: not during tracing or capture."""
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
    """Returns the mask: None if every key counts, else lengths, or for other patterns a FunctionMask or the mask that sdpa would get.

    The arguments are transformers': key j has position kv_offset + j, query i has position q_offset + i, and
    attention_mask (batch, positions) says which positions count; later ones do not. The values are read once per forward,
    and not at all during tracing or capture: there a mask with gaps fails an assertion on the device.
    """
    if are_lengths(attention_mask):  # generate() has made the mask already
        return attention_mask
    if torch.compiler.is_compiling():
        may_be_packed = mask_function.__name__ == "and_mask" and q_length == kv_length > 1
        parts = _traced_parts_of(mask_function, local_size, config, may_be_packed, others)
    else:
        parts = _parts_of(mask_function)
    if local_size is not None and kv_length + kv_offset <= local_size and not is_active():
        parts.discard("chunked_overlay")  # there is only one chunk

    def make_matrix() -> torch.Tensor:
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

    def make_pattern() -> torch.Tensor:
        """Returns a FunctionMask, or the matrix where that is as small as its columns, or must be a graph's."""
        if q_length == 1 or torch.compiler.is_compiling() or (attention_mask is not None and not _may_read(attention_mask)):
            return make_matrix()
        counts = None if attention_mask is None else _keys_that_count(attention_mask, kv_length, kv_offset)
        if counts is not None and counts.all():
            counts = None
        text, problem = text_of(mask_function, counts, q_offset, kv_offset)
        if text is None:
            _logger.warning_once(f"fa2 reads the matrix of a mask: {problem}")
            return make_matrix()
        return FunctionMask((batch_size, 1, q_length, kv_length), device, text, make_matrix)

    is_local = "sliding_window_bidirectional_overlay" in parts
    if not parts <= _KNOWN or (is_local and q_length != kv_length):
        return make_pattern()
    if attention_mask is None and "packed_sequence_mask_function" in parts:
        return find_packed(mask_function, batch_size, q_length, device)
    causal = "causal_mask_function" in parts
    end = q_offset + q_length - kv_offset if causal else kv_length  # one past the last key that any query sees
    if attention_mask is None:
        if isinstance(end, int) and end == kv_length:
            return None
        used_k = torch.zeros(batch_size, dtype=torch.int32, device=device) + end
        used_q = torch.full_like(used_k, q_length)
        return _as_mask((used_q, used_k), causal)

    counts = _keys_that_count(attention_mask, kv_length, kv_offset)
    if may_read := _may_read(counts):
        # On the CPU, because this is finished before a GPU would have begun its first launch.
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
        torch._assert_async(gapless, "fa2: an attention mask has gaps, which traced models cannot have")
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
    """Returns which keys count: bool (batch, kv_length)."""
    present = attention_mask[:, kv_offset : kv_offset + kv_length].bool()
    return torch.nn.functional.pad(present, (0, kv_length - present.shape[1]))


def _attends_to_others(config: Any) -> bool:
    """Returns whether a mask that is not causal may belong to keys of another sequence, and so not apply to queries."""
    return bool(getattr(config, "is_encoder_decoder", False) or getattr(config, "add_cross_attention", False))


def _with_starts(used_q: Any, used_k: Any, start: Any, kv_length: int) -> tuple[torch.Tensor, ...]:
    batch = start.shape[0]
    entry = torch.arange(batch + 1, dtype=torch.int32, device=start.device).clamp(max=batch - 1)
    pad = torch.nn.functional.pad
    return pad(used_q, (0, 1)), pad(used_k, (0, 1)), pad(start, (0, 1), value=kv_length), entry


def _as_mask(rows: tuple[torch.Tensor, ...], causal: bool) -> torch.Tensor:
    return torch.stack(rows).expand(1, 1 if causal else 2, -1, -1)
