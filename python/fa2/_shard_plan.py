"""Plans of attention over sharded tokens, their memo by process group, and what ranks compare before a call."""

from __future__ import annotations

import ctypes as C
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from . import _core, _hooks, _library, _mistakes
from ._c_structs import Args, BackwardArgs, Problem, Tensor
from ._call import MASKS
from ._communicator import Communicator, exists
from ._shards import Layout, handle_of

GRADIENTS, D_SINKS, BITWISE = 7, 8, 256  # of fa2/c_backward.h
_HOST = -2  # FA2_INTERPRETER_DEVICE
_MOST_PLANS = 64  # of a group and device: documents of other lengths need other plans; and of a decoding's caches
DTYPES = {torch.float16: 0, torch.bfloat16: 1}
SCHEMES = {"automatic": 0, "gather_heads": 1, "local": 2, "all_to_all": 3, "staged": 4}


class Request(NamedTuple):
    """What ranks make a plan for. Must be equal on all of them."""

    dtype: torch.dtype
    batch: int
    heads: int
    heads_kv: int
    head_dim: int
    head_dim_v: int
    layout: Layout
    causal: Any  #: a key of MASKS
    window_size: tuple[int, int]
    softcap: bool
    alibi: bool
    sinks: bool
    dropout: bool
    scheme: str
    groups: int
    gradients: int  #: of fa2/c_backward.h; 0: none

    def problem(self) -> Problem:
        """Returns the problem of all tokens."""
        p, layout = Problem.new(), self.layout
        p.dtype, p.mask = DTYPES[self.dtype], MASKS[self.causal]
        p.head_dim, p.head_dim_v = self.head_dim, self.head_dim_v
        p.batch, p.heads_q, p.heads_kv = self.batch, self.heads, self.heads_kv
        p.seqlen_q = p.seqlen_k = layout.tokens
        p.has_window_left, p.has_window_right = (side >= 0 for side in self.window_size)
        p.window_left, p.window_right = (max(side, 0) for side in self.window_size)
        p.softcap, p.alibi, p.sinks, p.dropout = self.softcap, self.alibi, self.sinks, self.dropout
        if (borders := layout.cu_seqlens) is not None:
            p.varlen, p.batch, p.total_q, p.total_k = 1, len(borders) - 1, layout.tokens, layout.tokens
            p.seqlen_q = p.seqlen_k = max((end - begin for begin, end in zip(borders, borders[1:])), default=0)
        return p


class Numbers(NamedTuple):
    """The options of a run."""

    softcap: float = 0.0
    softmax_scale: float | None = None
    dropout_p: float = 0.0
    dropout_seed: int = 0
    dropout_offset: int = 0
    dropout_state: torch.Tensor | None = None  #: in place of both numbers
    alibi_slopes: torch.Tensor | None = None
    sinks: torch.Tensor | None = None


def is_aligned(x: torch.Tensor) -> bool:
    """Returns whether rows begin at multiples of 16 bytes, which ranks promise each other."""
    *strides, last = x.stride()
    return last == 1 and x.data_ptr() % 16 == 0 and all(stride > 0 and stride % 8 == 0 for stride in strides)


def aligned(x: torch.Tensor) -> torch.Tensor:
    """Returns x, or a copy if it is not is_aligned()."""
    return x if is_aligned(x) else x.clone(memory_format=torch.contiguous_format)


def _operand(x: torch.Tensor | None) -> Tensor:
    """Returns the struct of a (batch, tokens, heads, dim) or (tokens, heads, dim) tensor."""
    if x is None:
        return Tensor()
    row, head = x.stride()[-3:-1]
    return Tensor(address_of(x), (C.c_int64 * 3)(x.stride(0) if x.ndim == 4 else row * len(x), head, row))


#: Tensors of ranks without tokens point here.
_nowhere = torch.empty(16, dtype=torch.uint8)


def address_of(x: torch.Tensor | None) -> int | None:
    return None if x is None else x.data_ptr() or _nowhere.data_ptr()


class Native:
    """A rank's plan of the C interface."""

    _kind = "context_parallel_plan"  #: begins the names of its functions, behind fa2_

    def __init__(self, communicator: Communicator, options: Any, *what: Any) -> None:
        """what: the arguments of the function that makes it, between context and communicator."""
        self._communicator = communicator
        self._done: Any = None  # an event behind the last run
        cuda = communicator.device.type == "cuda"
        self._device = communicator.device.index if cuda else _HOST
        handle, size = C.c_void_p(), C.c_size_t()
        communicator.call(f"{self._kind}_create", None, *what, communicator.handle, options, self._device, C.byref(handle))
        self._handle = handle
        _library.call(f"{self._kind}_workspace_bytes", handle, C.byref(size))
        self._workspace_bytes = size.value if cuda else 0  # the interpreter's own memory has the alignment

    def __del__(self) -> None:
        if sys.is_finalizing() or not hasattr(self, "_handle"):
            return
        if self._done is not None:
            self._done.synchronize()
        _library.call(f"{self._kind}_destroy", self._handle)

    def explain(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_library.text_of(f"{self._kind}_explain", self._handle))
        return found

    def _call(self, name: str, args: Any) -> None:
        name = f"{self._kind}_{name}"
        if self._device == _HOST:
            return self._communicator.call(name, self._handle, args, None)
        if self._workspace_bytes:
            workspace = torch.empty(self._workspace_bytes, dtype=torch.uint8, device=self._communicator.device)
            args.workspace = workspace.data_ptr()
        self._communicator.call(name, self._handle, args, _hooks.current_stream(self._device))
        if torch.cuda.is_current_stream_capturing():
            _captured.append(self)
            return
        self._done = self._done or torch.cuda.Event()  # type: ignore[no-untyped-call, unused-ignore]
        self._done.record(torch.cuda.current_stream(self._device))


#: Plans that CUDA graphs may run again.
_captured: list[Native] = []


class NativePlan(Native):
    """A rank's fa2_context_parallel_plan."""

    def __init__(self, communicator: Communicator, request: Request) -> None:
        self.gradients = request.gradients
        options = _library.ContextParallelOptions(
            C.sizeof(_library.ContextParallelOptions), SCHEMES[request.scheme], request.groups, request.gradients
        )
        borders = request.layout.cu_seqlens
        documents = (None, 0) if borders is None else (_library.longs(borders), len(borders) - 1)
        layout = handle_of(request.layout)
        try:
            super().__init__(communicator, options, request.problem(), layout, *documents)
        finally:
            _library.call("shard_layout_destroy", layout)

    def run(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, numbers: Numbers, with_lse: bool) -> Any:
        """Returns (out, lse), or (out, None). Tensors must be aligned()."""
        out = _hooks.new_out(q, v.shape[-1])
        lse = _hooks.new_lse(q) if with_lse else None
        self._call("run", args_of((q, k, v, out, lse), numbers))
        return out, lse

    def run_backward(
        self, d_out: torch.Tensor, d_lse: torch.Tensor | None, saved: tuple[Any, ...], numbers: Numbers
    ) -> tuple[Any, ...]:
        """Returns the gradients of q, k, v and sinks. saved: q, k, v, out and lse. Tensors must be aligned()."""
        dq, dk, dv = (_hooks.new_out(x, x.shape[-1]) for x in saved[:3])
        d_sinks = None if numbers.sinks is None else torch.zeros_like(numbers.sinks)  # stays 0 on ranks without queries
        forward, args = args_of(saved, numbers), BackwardArgs.new()
        args.forward = C.pointer(forward)
        args.d_out, args.dq, args.dk, args.dv = (_operand(x) for x in (d_out, dq, dk, dv))
        args.d_lse, args.d_sinks = address_of(d_lse), address_of(d_sinks)
        self._call("run_backward", args)
        return dq, dk, dv, d_sinks


def args_of(tensors: tuple[Any, ...], numbers: Numbers) -> Args:
    """Returns the arguments of q, k, v, out and lse."""
    args, slopes = Args.new(), numbers.alibi_slopes
    args.q, args.k, args.v, args.out = (_operand(x) for x in tensors[:4])
    args.lse, args.softcap, args.dropout_probability = address_of(tensors[4]), numbers.softcap, numbers.dropout_p
    if numbers.softmax_scale is not None:
        args.has_softmax_scale, args.softmax_scale = 1, numbers.softmax_scale
    args.alibi_slopes, args.sinks = address_of(slopes), address_of(numbers.sinks)
    args.alibi_slopes_per_batch = slopes is not None and slopes.ndim == 2
    args.dropout_seed, args.dropout_offset = numbers.dropout_seed, numbers.dropout_offset
    args.dropout_state = address_of(numbers.dropout_state)
    return args


class Memo(NamedTuple):
    communicator: Communicator
    plans: dict[Any, Any]  #: by requests, or of one decoding by shapes of the rank's cache; the last used last
    requests: dict[Any, Request]  #: that broke no rule, by what they were made of


#: Memos by group, then by device. The next new group drops those of destroyed ones.
_memos: dict[Any, dict[torch.device, Memo]] = {}


def memo_of(group: Any, device: torch.device) -> Memo:
    """Returns the communicator of a group and a device, and its plans. All ranks must make it together."""
    if (made := held_memo(group, device)) is not None:
        return made
    for other in [x for x in _memos if not exists(x)]:
        del _memos[other]
    made = Memo(Communicator(group, device), {}, {})
    _memos.setdefault(group, {})[device] = made
    return made


def held_memo(group: Any, device: torch.device) -> Memo | None:
    """Returns the memo of a group and a device if there is one."""
    return _memos.get(group, {}).get(device)


def held_plan(group: Any, device: torch.device, request: Any) -> Any:
    """Returns the plan of a request if there is one, else None."""
    memo = held_memo(group, device)
    return None if memo is None else memo.plans.get(request)


def plan_of(memo: Memo, request: Any, make: Callable[..., Any] = NativePlan) -> Any:
    """Returns the plan of a request, which make(communicator, request) makes. All ranks must call this in the same order, and so meet
    the same hits."""
    plan = memo.plans.pop(request, None) or make(memo.communicator, request)
    memo.plans[request] = plan
    if len(memo.plans) > _MOST_PLANS:
        del memo.plans[next(iter(memo.plans))]
    return plan


def require_tensors(tensors: dict[str, Any], found: dict[str, str]) -> None:
    """Raises what keeps shapes from being looked at. tensors: q, k and v by names. found: mistakes that are known, by arguments."""
    lines, given, names = list(found.values()), list(tensors.values()), ", ".join(tensors)
    if any(name in found for name in (*tensors, "alibi_slopes", "sinks")):
        raise _mistakes.invalid_request(lines, kind=_core.InvalidType)
    if not all(isinstance(x, torch.Tensor) for x in given):
        lines.append(f"{names} = arrays, must be PyTorch tensors: pass torch.from_numpy(q)")
    elif any(type(x) not in (torch.Tensor, torch.nn.Parameter) for x in given) or given[0].device.type not in ("cpu", "cuda"):
        lines.append(f"{names} = subclasses, or tensors of another device, must be plain tensors on CUDA or the CPU")
    elif wrong := {str(x.dtype) for x in given if x.dtype not in DTYPES or x.dtype != given[0].dtype}:
        lines.append(f"{names} = tensors of {', '.join(sorted(wrong))}, must be all float16 or all bfloat16")
    else:
        return
    raise _mistakes.invalid_request(lines, kind=_core.InvalidType)


def all_check(q: Any) -> bool:
    """Returns whether ranks compare all requests, not only new ones: on the CPU, and with FA2_CHECK=1, because it takes time."""
    if not getattr(q, "is_cuda", False):
        return True
    return os.environ.get("FA2_CHECK") == "1" and not torch.cuda.is_current_stream_capturing()


def agree(group: Any, said: dict[str, Any] | None, error: _core.InvalidRequest | None) -> None:
    """Raises `error`, what other ranks have found wrong, or how they ask otherwise than rank 0. said: the rank's options."""
    told: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, (said, error and "; ".join(str(error).split("\n  "))), group)
    if error is not None:
        raise error
    broken = [f'request of rank {rank} = "{text}", must break no rule' for rank, (_, text) in enumerate(told) if text is not None]
    for rank, (other, _) in enumerate(told if not broken else []):
        for name, first in told[0][0].items():
            if other[name] != first:
                broken.append(f"{name} of rank {rank} = {other[name]}, must equal rank 0's, {first}")
    if broken:
        raise _mistakes.invalid_request(broken)
