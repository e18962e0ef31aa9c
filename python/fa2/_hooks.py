"""Functions that the extension calls, for tensors, streams and memory of other libraries. It keeps them from the first use on."""

from __future__ import annotations

import sys
from typing import Any

from . import _core

DTYPES = {
    # written: element types
    "float16": 0,
    "bfloat16": 1,
    "float32": 2,
    "int32": 3,
    "int64": 4,
    "uint8": 5,
    "float8_e4m3fn": 6,
    # end of element types
}
_OTHER_DTYPE = -1
_HOST = -2  # FA2_INTERPRETER_DEVICE
_OTHER_DEVICE = -3

#: PyTorch's, once fa2._torch is imported: the usual output of its tensors.
empty_like: Any = None


def torch_of(tensor: Any) -> Any:
    """Returns PyTorch if `tensor` is its, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(tensor, torch.Tensor) else None


def is_array(tensor: Any) -> bool:
    """Returns whether `tensor` is numpy's."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(tensor, numpy.ndarray)


def complaint(tensor: Any) -> str | None:
    """Returns "GIVEN, must EXPECTED: DO" for what fa2 cannot read as a tensor, else None."""
    if (torch := torch_of(tensor)) is not None:
        if tensor.layout is not torch.strided:
            return f"{tensor.layout}, must be dense: pass its to_dense()"
    elif not is_array(tensor):
        return f"{text_of(tensor)}, must be a PyTorch tensor or a numpy array"
    elif hasattr(tensor, "mask"):
        return "masked array, must have no mask: pass its filled(value)"
    elif not tensor.dtype.isnative:
        return f"array of byte order = {tensor.dtype.byteorder}, must be native: pass its astype(dtype.newbyteorder('='))"
    elif any(stride % tensor.itemsize for stride in tensor.strides):
        return f"array of strides {tensor.strides} bytes, must be multiples of {tensor.itemsize}: pass its copy()"
    return None


def text_of(value: Any) -> str:
    """Returns a short text of a value: itself, or its type if that is long."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else type(value).__name__


def describe(tensor: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, bool]:
    """Returns (data, shape, strides in elements, dtype, device, read-only) of a tensor that has no DLPack exchange API."""
    if (wrong := complaint(tensor)) is not None:
        is_array_like = is_array(tensor) or torch_of(tensor) is not None
        raise (_core.InvalidRequest if is_array_like else _core.InvalidType)(f"tensor = {wrong}")
    if torch_of(tensor) is not None:
        code = DTYPES.get(str(tensor.dtype).removeprefix("torch."), _OTHER_DTYPE)
        kind = tensor.device.type
        device = _HOST if kind == "cpu" else tensor.device.index if kind == "cuda" else _OTHER_DEVICE
        data = tensor.data_ptr() if device != _OTHER_DEVICE else 1  # which no one reads: the device is refused
        return data, tuple(tensor.shape), tensor.stride(), code, device, False
    strides = tuple(stride // tensor.itemsize for stride in tensor.strides)
    code = DTYPES.get(tensor.dtype.name, _OTHER_DTYPE)
    data, read_only = tensor.__array_interface__["data"]
    return data, tensor.shape, strides, code, _HOST, read_only


#: By numbers of make_score_text(): (name, dtype, dimensions) of each capture.
capture_specs: dict[int, tuple[tuple[str, int, int], ...]] = {}


def capture_name(number: int, index: int) -> str:
    """Returns the name of a capture, or its place if other languages have made the text."""
    specs = capture_specs.get(number, ())
    return specs[index][0] if index < len(specs) else str(index)


def current_stream(device: int) -> int:
    """Returns PyTorch's current stream of a CUDA device."""
    stream: int = sys.modules["torch"]._C._cuda_getCurrentRawStream(device)
    return stream


def allocate(device: int, count: int, zeroed: int) -> Any:
    """Returns `count` bytes of PyTorch's allocator, made on the current stream. The first `zeroed` are 0."""
    torch = sys.modules["torch"]
    memory = torch.empty(count, dtype=torch.uint8, device=torch.device("cuda", device))
    if zeroed:
        memory[:zeroed].zero_()
    return memory


def new(like: Any, shape: tuple[int, ...], dtype: Any = None, zeros: bool = False) -> Any:
    """Returns a contiguous tensor of the library and device of `like`. `dtype`: a name, or as `like` if None."""
    if (torch := torch_of(like)) is not None:
        kind = getattr(torch, dtype) if isinstance(dtype, str) else dtype or like.dtype
        return like.new_zeros(shape, dtype=kind) if zeros else like.new_empty(shape, dtype=kind)
    import numpy

    return (numpy.zeros if zeros else numpy.empty)(shape, dtype or like.dtype)


def new_out(q: Any, columns: int, zeros: bool = False) -> Any:
    """Returns an output for `q`: in q's order in memory if it has as many columns and no gaps between them."""
    if (torch := torch_of(q)) is not None and q.shape[-1] == columns and q.stride(-1) == 1:
        return torch.zeros_like(q) if zeros else torch.empty_like(q)
    return new(q, (*q.shape[:-1], columns), None, zeros)


def new_lse(q: Any, zeros: bool = False) -> Any:
    """Returns an LSE for `q`, (batch, heads, seqlen_q) or (heads, total_q)."""
    shape = q.shape
    rows = (shape[0], shape[2], shape[1]) if len(shape) == 4 else (shape[1], shape[0])
    if not zeros and (torch := torch_of(q)) is not None:
        return q.new_empty(rows, dtype=torch.float32)
    return new(q, rows, "float32", zeros)


def contiguous(x: Any) -> Any:
    """Returns x, or a copy if its last dimension has gaps; None for None."""
    if x is None or len(x.shape) == 0:
        return x
    if torch_of(x) is not None:
        return x if x.stride(-1) == 1 else x.contiguous()
    import numpy

    return x if x.strides[-1] == x.itemsize else numpy.ascontiguousarray(x)
