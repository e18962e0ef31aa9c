"""Masks as FlexAttention takes them. fa2's kernels find the blocks that a mask hides themselves, on the device."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._block_maps import HeldMask, Maps, Unseen, state_of, stream_of
from ._score_memo import is_of
from ._scores import ScoreText, score_text

#: mask_mod(batch, head, query, key), or a text of it.
Mask = Callable[[Any, Any, Any, Any], Any] | ScoreText

_HIDDEN, _PARTIAL, _FULL = 0, 1, 2  # what a table of blocks holds
_NO_BLOCKS = 1 << 30  # PyTorch's block size of a mask that hides nothing


def noop_mask(batch: Any, head: Any, query: Any, key: Any) -> bool:
    """Hides no key."""
    return True


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a mask_mod that shows a key to a query if all of these do."""
    _require_functions(mask_mods)

    def and_mask(batch: Any, head: Any, query: Any, key: Any) -> Any:
        result: Any = True
        for mask in mask_mods:
            result = mask(batch, head, query, key) & result
        return result

    return and_mask


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a mask_mod that shows a key to a query if one of these does."""
    _require_functions(mask_mods)

    def or_mask(batch: Any, head: Any, query: Any, key: Any) -> Any:
        result: Any = False
        for mask in mask_mods:
            result = mask(batch, head, query, key) | result
        return result

    return or_mask


def _require_functions(mask_mods: tuple[Any, ...]) -> None:
    for mask in mask_mods:
        if not callable(mask):
            raise _core.InvalidType(f"mask_mods = {type(mask).__name__}, must be functions of (batch, head, query, key): pass these")


@dataclass(frozen=True, eq=False)
class BlockMask:
    """A mask_mod with the sizes it is meant for. create_block_mask() makes it.

    It holds the blocks that calls have found for the tiles of their kernels, until what its tensors hold changes.
    """

    mask_mod: Mask
    B: int | None  #: sequences; None: any number
    H: int | None  #: query heads; None: any number
    seq_lengths: tuple[int, int]  #: queries and keys
    device: Any
    BLOCK_SIZE: tuple[int, int]  #: as given; of no effect
    maps: Maps = field(default_factory=Maps, init=False, repr=False)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.B or 1, self.H or 1, *self.seq_lengths)

    def to(self, device: Any) -> BlockMask:
        """Returns the mask for another device. Its mask_mod captures the same tensors."""
        return BlockMask(self.mask_mod, self.B, self.H, self.seq_lengths, device, self.BLOCK_SIZE)

    def __getitem__(self, index: Any) -> BlockMask:
        raise _core.InvalidRequest("block_mask[...] = a part, must be whole: create a mask with an offset, lambda b, h, q, k: mask_mod(b, h, q + offset, k)")


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = "cuda",
    BLOCK_SIZE: int | tuple[int, int] = 128,
    _compile: bool = False,
) -> BlockMask:
    """Returns a mask for flex_attention(), as FlexAttention's function of this name does, but evaluates nothing.

    mask_mod(batch, head, query, key) returns whether the query sees the key; or a ScoreText. B, H: sequences and query heads,
    or None or 1 for any number. BLOCK_SIZE, _compile: of no effect.
    """
    if not callable(mask_mod) and not isinstance(mask_mod, ScoreText):
        raise _core.InvalidType(f"mask_mod = {type(mask_mod).__name__}, must be a function of (batch, head, query, key): pass it")
    sizes = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
    return BlockMask(mask_mod, B, H, (int(Q_LEN), int(KV_LEN)), device, sizes)


def mask_of(block_mask: Any, q: Any, k: Any) -> Mask | HeldMask | None:
    """Returns the mask_mod of a BlockMask, also of PyTorch's, with its maps if the call can use them. None: it hides nothing.

    q, k: (batch, heads, seqlen, head_dim). Raises if these have other sizes than the mask.
    """
    if isinstance(block_mask, BlockMask):
        _check_sizes(block_mask, q, k)
        mask_mod = block_mask.mask_mod
        return HeldMask(mask_mod, block_mask.maps, _shape_of(q, k)) if _can_hold(q) else mask_mod
    if not hasattr(block_mask, "kv_indices") or not hasattr(block_mask, "mask_mod"):
        do = "pass fa2.create_block_mask(...)"
        if callable(block_mask):
            do = "pass fa2.create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN)"
        raise _core.InvalidType(f"block_mask = {type(block_mask).__name__}, must be a BlockMask of fa2 or PyTorch: {do}")
    if min(block_mask.BLOCK_SIZE) >= _NO_BLOCKS:
        return None
    if is_of("torch", block_mask.mask_mod, "_sliced_mask_mod_error"):
        raise _core.InvalidRequest("block_mask.mask_mod = that of a slice, must be set: assign one with the slice's offset, and seq_lengths")
    _check_sizes(block_mask, q, k)
    return _held_of_blocks(block_mask, q, k) if _can_hold(q) else _of_blocks(block_mask)


def _check_sizes(block_mask: Any, q: Any, k: Any) -> None:
    batch, heads, *lengths = tuple(block_mask.shape[-4:]) if len(block_mask.shape) >= 4 else (1, 1, *block_mask.shape[-2:])
    wanted = (q.shape[2], k.shape[2])
    if tuple(lengths) != wanted:
        raise _core.InvalidRequest(
            f"block_mask.seq_lengths = {tuple(lengths)}, must be {wanted}, as q and k have: create a mask for these lengths"
        )
    for name, given, size in (("B", batch, q.shape[0]), ("H", heads, q.shape[1])):
        if given not in (1, size):
            raise _core.InvalidRequest(f"block_mask.{name} = {given}, must be {size}, as q has, or 1: create a mask for this number")


def _shape_of(q: Any, k: Any) -> Any:
    return tuple(q.shape[:3]), tuple(k.shape[1:3])


def _can_hold(q: Any) -> bool:
    """Returns whether a call may use what earlier calls have made. Graphs may not: captures can change before a replay."""
    torch = sys.modules["torch"]
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0 or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return not (q.is_cuda and torch.cuda.is_current_stream_capturing())


#: By PyTorch's masks: the state of what _of_blocks() has read, memory of that state, mask_mod and maps.
_converted: weakref.WeakKeyDictionary[Any, tuple[Any, list[Any], Mask, Maps]] = weakref.WeakKeyDictionary()


def _held_of_blocks(block_mask: Any, q: Any, k: Any) -> Mask | HeldMask:
    """Returns _of_blocks(), with its maps, made once for each state of PyTorch's BlockMask and stream."""
    lists = (block_mask.kv_num_blocks, block_mask.kv_indices, block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    memory: list[Any] = []
    try:
        states = [None if x is None else state_of(x, memory) for x in lists]
    except Unseen:
        return _of_blocks(block_mask)
    state = (block_mask.mask_mod, block_mask.BLOCK_SIZE, block_mask.seq_lengths, stream_of(q), states)
    made = _converted.get(block_mask)
    if made is None or made[0] != state:
        with sys.modules["torch"].inference_mode(False):  # whose tensors a later call could not save for its gradients
            made = _converted[block_mask] = state, memory, _of_blocks(block_mask), Maps()
    return HeldMask(made[2], made[3], _shape_of(q, k))


def _of_blocks(block_mask: Any) -> Mask:
    """Returns the mask_mod of PyTorch's BlockMask, restricted to its blocks.

    Its blocks may say more than its mask_mod: those of from_kv_blocks() and of slices do. No attribute tells these from others.
    """
    mask_mod = block_mask.mask_mod
    blocks = _table_of(block_mask)
    shows_all = mask_mod is None or mask_mod is noop_mask or is_of("torch", mask_mod, "noop_mask")
    has_batches, has_heads = blocks.shape[0] > 1, blocks.shape[1] > 1
    blocks = blocks[slice(None) if has_batches else 0, slice(None) if has_heads else 0]
    rows, columns = block_mask.BLOCK_SIZE

    def block_mask_mod(batch: Any, head: Any, query: Any, key: Any) -> Any:
        copies = (*((batch,) if has_batches else ()), *((head,) if has_heads else ()))
        block = blocks[(*copies, query // rows, key // columns)]
        if shows_all:
            return block != _HIDDEN
        return (block == _FULL) | ((block == _PARTIAL) & mask_mod(batch, head, query, key))

    return score_text(mask_mod=block_mask_mod, mask_block=(rows, columns)) if shows_all else block_mask_mod


def _table_of(block_mask: Any) -> Any:
    """Returns a tensor (batch, heads, query blocks, key blocks) of uint8: _HIDDEN, _PARTIAL or _FULL. Waits for no device."""
    counts, indices = block_mask.kv_num_blocks, block_mask.kv_indices
    table = _dense(counts, indices, block_mask, _PARTIAL)
    if block_mask.full_kv_num_blocks is not None:
        table = table.maximum(_dense(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, block_mask, _FULL))
    return table


def _dense(counts: Any, indices: Any, block_mask: Any, value: int) -> Any:
    import torch

    lists = indices.reshape(*(1,) * (4 - indices.ndim), *indices.shape).long()
    counts = counts.reshape(*(1,) * (3 - counts.ndim), *counts.shape)
    columns = -(-block_mask.seq_lengths[1] // block_mask.BLOCK_SIZE[1])
    unused = torch.arange(lists.shape[-1], device=lists.device) >= counts[..., None]
    table = torch.zeros((*lists.shape[:-1], columns + 1), dtype=torch.uint8, device=lists.device)
    return table.scatter_(-1, lists.masked_fill(unused, columns), value)[..., :columns]
