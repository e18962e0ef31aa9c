"""Arrays that end at the end of mapped memory: an access behind them faults, and Watch finds writes before them."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Memory:
    """Bytes between two inaccessible pages. Its arrays end at the second page."""

    def __init__(self, pages: int) -> None:
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        whole = np.frombuffer(self._map, np.uint8)
        for guard in (0, (pages + 1) * _PAGE):
            if _libc.mprotect(whole.ctypes.data + guard, _PAGE, _PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        self.bytes = whole[_PAGE:-_PAGE]

    def array(self, shape: tuple[int, ...], dtype: Any, order: tuple[int, ...], gap: int, seed: int) -> Any:
        """Returns an array of random bytes. `order` lists its dimensions as they lie in memory, outermost first. `gap`
        elements lie between neighbours along the outermost."""
        self.bytes[:] = np.random.default_rng(seed).integers(1, 255, self.bytes.size, np.uint8)
        itemsize = np.dtype(dtype).itemsize
        strides = [0] * len(shape)
        step = itemsize
        for dimension in reversed(order):
            if dimension == order[0]:
                step += gap * itemsize
            strides[dimension] = step
            step *= shape[dimension]
        empty = 0 in shape
        last = 0 if empty else sum((n - 1) * s for n, s in zip(shape, strides)) + itemsize
        if last > self.bytes.size:
            raise MemoryError("an array is larger than its memory")
        start = self.bytes[self.bytes.size - last :]
        return np.ndarray(shape, dtype, start.data if not empty else bytearray(), 0, None if empty else tuple(strides))


class Watch:
    """Remembers the contents of memories, to find what a call has written."""

    def __init__(self, memories: list[Memory]) -> None:
        self._before = [(memory, memory.bytes.copy()) for memory in memories]

    def require(self, written: list[Any]) -> None:
        """Raises if anything but the elements of the arrays `written` has changed."""
        for memory, before in self._before:
            after = memory.bytes.copy()
            changed = np.flatnonzero(before != after)
            for array in written:
                changed = np.setdiff1d(changed, _offsets(array, memory), assume_unique=True)
            if changed.size:
                raise AssertionError(f"{changed.size} bytes outside of outputs were written, the first at {changed[0]}")


def _offsets(array: Any, memory: Memory) -> Any:
    """Returns the offset in `memory` of each byte of the array's elements; empty if the array lies elsewhere."""
    first = array.ctypes.data - memory.bytes.ctypes.data
    if array.size == 0 or not 0 <= first < memory.bytes.size:
        return np.empty(0, np.int64)
    offsets = np.array([first])
    for n, stride in zip(array.shape, array.strides):
        offsets = (offsets[:, None] + np.arange(n) * stride).ravel()
    return (offsets[:, None] + np.arange(array.itemsize)).ravel()
