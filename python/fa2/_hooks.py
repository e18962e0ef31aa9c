"""What the extension asks Python for: tensors without the DLPack exchange API, streams and memory."""

from __future__ import annotations

import sys
from typing import Any

from . import _core

_DTYPES = {"float16": 0, "bfloat16": 1, "float32": 2, "int32": 3, "int64": 4, "uint8": 5}
_OTHER_DTYPE = -1
_HOST = -2  # FA2_INTERPRETER_DEVICE
_OTHER_DEVICE = -3


def require_plain(array: Any) -> None:
    """Raises unless a numpy array is what its memory says: without a mask, of native byte order."""
    if hasattr(array, "mask"):
        raise _core.InvalidRequest("masked array = given, must have no mask: pass array.filled(value)")
    if not array.dtype.isnative:
        raise _core.InvalidRequest(
            f"byte order = {array.dtype.byteorder}, must be native: pass array.astype(array.dtype.newbyteorder('='))"
        )


def describe(tensor: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, bool]:
    """(data, shape, strides in elements, dtype, device, read-only) of a numpy array, or of PyTorch's before 2.10."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        code = _DTYPES.get(str(tensor.dtype).removeprefix("torch."), _OTHER_DTYPE)
        kind = tensor.device.type
        device = _HOST if kind == "cpu" else tensor.device.index if kind == "cuda" else _OTHER_DEVICE
        return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), code, device, False
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(tensor, numpy.ndarray):
        raise TypeError(f"tensor = {type(tensor).__name__}, must be a PyTorch tensor or a numpy array")
    require_plain(tensor)
    if any(stride % tensor.itemsize for stride in tensor.strides):
        raise _core.InvalidRequest("strides must be multiples of the element")
    strides = tuple(stride // tensor.itemsize for stride in tensor.strides)
    code = _DTYPES.get(tensor.dtype.name, _OTHER_DTYPE)
    data, read_only = tensor.__array_interface__["data"]
    return data, tensor.shape, strides, code, _HOST, read_only


def current_stream(device: int) -> int:
    stream: int = sys.modules["torch"]._C._cuda_getCurrentRawStream(device)
    return stream


def allocate(device: int, count: int, zeroed: int) -> Any:
    """Bytes from PyTorch's allocator, on the current stream; the first `zeroed` are 0."""
    torch = sys.modules["torch"]
    memory = torch.empty(count, dtype=torch.uint8, device=torch.device("cuda", device))
    if zeroed:
        memory[:zeroed].zero_()
    return memory


def install(empty_like: Any = None) -> None:
    """Before the first call, and by a library that makes outputs, with its function for that."""
    _core.set_hooks(describe, current_stream, allocate, empty_like)
