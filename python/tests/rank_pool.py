"""Processes that are ranks of gloo groups, for tests. They start once, because importing PyTorch takes seconds."""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS = 3
_SECONDS = 300  # compilers of the interpreter share the machine's cores


def _serve(rank: int, store: str, calls: Any, results: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    groups = {size: dist.new_group(list(range(size))) for size in range(1, RANKS)}
    groups[RANKS] = dist.group.WORLD
    while (call := calls.get()) is not None:
        number, function, size, arguments = call
        try:
            results.put((number, rank, function(groups[size], *arguments), None))
        except BaseException:
            results.put((number, rank, None, traceback.format_exc()))
    os._exit(0)  # what PyTorch does at exit waits for others


class RankPool:
    """RANKS processes. run() calls a function on the first of them."""

    def __init__(self, store: str) -> None:
        context = mp.get_context("spawn")
        self._calls = [context.SimpleQueue() for _ in range(RANKS)]
        self._results = context.Queue()
        self._count = 0
        arguments = [(rank, store, calls, self._results) for rank, calls in enumerate(self._calls)]
        self._processes = [context.Process(target=_serve, args=each, daemon=True) for each in arguments]
        for process in self._processes:
            process.start()

    def run(self, size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Returns function(group, *arguments) of ranks 0 .. size - 1. The function must be a module's; results must not be tensors."""
        self._count += 1
        for calls in self._calls[:size]:
            calls.put((self._count, function, size, arguments))
        results: dict[int, Any] = {}
        while len(results) < size:
            try:
                number, rank, result, error = self._results.get(timeout=_SECONDS)
            except queue.Empty:
                raise AssertionError("ranks wait for each other") from None
            if number == self._count:  # others are of calls that have failed
                assert error is None, f"rank {rank}: {error}"
                results[rank] = result
        return [results[rank] for rank in range(size)]

    def close(self) -> None:
        for calls in self._calls:
            calls.put(None)
        for process in self._processes:
            process.join(10)
            process.kill()


@contextlib.contextmanager
def rank_pool() -> Iterator[RankPool]:
    with tempfile.TemporaryDirectory() as folder:
        pool = RankPool(os.path.join(folder, "store"))
        try:
            yield pool
        finally:
            pool.close()
