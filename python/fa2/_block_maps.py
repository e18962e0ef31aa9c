"""Maps of the blocks that a mask shows, held between calls for as long as nothing that the mask reads has changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from . import _core, _hooks

_MOST_MAPS = 4


class _Held(NamedTuple):
    key: Any
    memory: list[Any]  #: of captures, whose addresses are part of the key and must not be used again
    block_map: Any  #: of _core.make_block_map()


class Maps:
    """The maps of one mask: the last four, by what captures held. Copies of a mask have maps of their own."""

    def __init__(self) -> None:
        self.held: tuple[_Held, ...] = ()

    def __reduce__(self) -> Any:
        return Maps, ()

    def find(self, key: Any, captures: Iterable[Any], stream: int) -> Any:
        """Returns the map for a key, a stream and the present values of captures; None if their changes cannot be seen.

        A new map has no blocks. The launches of calls make these.
        """
        memory: list[Any] = []
        try:
            key = (key, stream, *[state_of(x, memory) for x in captures])
        except Unseen:
            return None
        held = next((x for x in self.held if x.key == key), None) or _Held(key, memory, _core.make_block_map(stream))
        self.held = (held, *[x for x in self.held if x is not held][: _MOST_MAPS - 1])
        return held.block_map


class HeldMask(NamedTuple):
    """The mask_mod of a call, with its maps."""

    mask_mod: Callable[..., Any] | Any  #: or a ScoreText
    maps: Maps
    shape: Any  #: of the call's queries and keys

    def find(self, number: int, captures: Iterable[Any], q: Any) -> Any:
        """Returns Maps.find() for a text's number."""
        return self.maps.find((number, self.shape, q.device), captures, stream_of(q))


class Unseen(Exception):
    """Memory whose changes PyTorch does not count."""


def stream_of(x: Any) -> int:
    """Returns the current stream of x's device; 0 for the CPU."""
    return _hooks.current_stream(x.get_device()) if x.is_cuda else 0


def state_of(x: Any, memory: list[Any]) -> Any:
    """Returns what is equal while a number or a tensor holds the same. Appends to `memory` what must live as long.

    Raises Unseen.
    """
    if isinstance(x, (bool, int, float)):
        return repr(x)
    torch = sys.modules["torch"]
    if type(x) not in (torch.Tensor, torch.nn.Parameter):
        raise Unseen
    try:
        storage = x.untyped_storage()
        state = (storage._cdata, x.data_ptr(), x._version, tuple(x.shape), x.stride(), x.dtype, x.device)
    except RuntimeError:  # tensors of inference mode count nothing, those of transforms have no memory
        raise Unseen from None
    memory.append(storage)
    return state
