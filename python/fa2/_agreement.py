"""What ranks compare before they call fa2, and checks that attention() and decode() over ranks share."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist

from . import _core, _mistakes
from ._shard_plan import DTYPES


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
