"""Communicators of PyTorch's process groups: NCCL's for CUDA tensors, the group itself for CPU tensors."""

from __future__ import annotations

import ctypes as C
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from . import _core, _library
from ._library import ALL_GATHER, EXCHANGE, WAIT, CommunicatorFunctions

_ID_BYTES = 128


def _memory(address: int, count: int) -> torch.Tensor:
    """Returns host memory as a tensor of bytes, without a copy."""
    return torch.frombuffer((C.c_uint8 * count).from_address(address), dtype=torch.uint8)


class _Exchanges:
    """The functions of a communicator whose messages are those of a process group, of host memory."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._peers = dist.get_process_group_ranks(group)
        self._rank = dist.get_rank(group)
        self._started: dict[int, list[Any]] = {}
        # Tensors of the last messages. The group's threads drop theirs a moment after a message has ended, and whoever drops one last
        # needs the GIL, which a thread cannot get while Python exits.
        self._kept: list[Any] = []
        self._count = 0
        self.failure: BaseException | None = None
        called = self._guarded
        self.functions = CommunicatorFunctions(
            struct_size=C.sizeof(CommunicatorFunctions),
            rank=self._rank,
            size=len(self._peers),
            exchange=EXCHANGE(called(self._exchange)),
            wait=WAIT(called(self._wait)),
            all_gather=ALL_GATHER(called(self._all_gather)),
        )

    def _guarded(self, function: Callable[..., None]) -> Callable[..., int]:
        def call(_: Any, *arguments: Any) -> int:
            try:
                function(*arguments)
            except BaseException as error:  # which cannot pass through C: Communicator.call() raises it
                self.failure = error
                return 1
            return 0

        return call

    def _exchange(self, transfers: Any, count: int, _: Any, number: Any) -> None:
        messages: list[Any] = []
        own: tuple[list[Any], list[Any]] = [], []
        for transfer in transfers[:count]:
            if transfer.bytes == 0:
                continue
            memory = _memory(transfer.data, transfer.bytes)
            if transfer.peer == self._rank:
                own[transfer.receives].append(memory)
                continue
            operation = dist.irecv if transfer.receives else dist.isend
            messages.append(dist.P2POp(operation, memory, self._peers[transfer.peer], self._group))
        for sent, received in zip(*own):
            received.copy_(sent)
        number[0] = self._count
        self._kept = messages
        self._started[self._count] = dist.batch_isend_irecv(messages) if messages else []
        self._count += 1

    def _wait(self, number: int) -> None:
        for work in self._started.pop(number):
            work.wait()

    def _all_gather(self, mine: int, count: int, everything: int) -> None:
        if count == 0:
            return
        parts = [_memory(everything + rank * count, count) for rank in range(len(self._peers))]
        self._kept = [*parts, _memory(mine, count)]
        dist.all_gather(parts, self._kept[-1], self._group)


def _make_nccl(group: Any, device: torch.device) -> C.c_void_p:
    """Returns a communicator with the ranks of a group, on `device`. All ranks must call this."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    identity = C.create_string_buffer(_ID_BYTES)
    made: list[Any] = [None]
    if rank == 0:
        try:
            _library.call("nccl_id_make", identity)
            made = [identity.raw]
        except _core.Error as error:  # which the other ranks must learn too
            made = [error]
    dist.broadcast_object_list(made, dist.get_global_rank(group, 0), group)
    if isinstance(made[0], _core.Error):
        raise made[0]
    with torch.cuda.device(device):
        return _library.made("nccl_init", made[0], size, rank, None)


class Communicator:
    """A rank's end of a process group for one device. All ranks must use it in the same order. Plans keep it alive."""

    def __init__(self, group: Any, device: torch.device) -> None:
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.device = device
        self._exchanges = None if device.type == "cuda" else _Exchanges(group)
        if self._exchanges is None:
            self.handle = _make_nccl(group, device)
        else:
            self.handle = _library.made("communicator_create", C.byref(self._exchanges.functions))

    def __del__(self) -> None:
        # At the exit of Python NCCL might wait for ranks that have ended already.
        if not sys.is_finalizing() and hasattr(self, "handle"):
            _library.call("communicator_destroy", self.handle)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls fa2_`name`, which may exchange data. Raises its error, caused by that of the group."""
        try:
            _library.call(name, *arguments)
        except _core.Error as error:
            failure = None
            if self._exchanges is not None:
                failure, self._exchanges.failure = self._exchanges.failure, None
            if failure is not None and not isinstance(failure, Exception):
                raise failure from None  # of Ctrl-C
            raise error from failure


def group_of(group: Any) -> Any:
    """Returns the process group, or the default one for None."""
    if not dist.is_available() or not dist.is_initialized():
        raise _core.InvalidRequest(
            "group = a process group that does not exist, must be made first: call torch.distributed.init_process_group()"
        )
    group = dist.group.WORLD if group is None else group
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise _core.InvalidRequest("group = NON_GROUP_MEMBER, must have this rank: call it on the group's ranks alone")
    return group


def exists(group: Any) -> bool:
    """Returns whether a group has not been destroyed. PyTorch may keep the object afterwards."""
    try:
        return dist.get_rank(group) >= 0
    except (ValueError, KeyError, RuntimeError):
        return False
