"""libfa2's C interface by ctypes, for calls whose callbacks are Python's."""

from __future__ import annotations

import ctypes as C
from typing import Any

from . import _core
from ._c_structs import Args, BackwardArgs, Problem

_INVALID_REQUEST = 1
#: Classes of errors, by fa2_status.
_KINDS: dict[int, type[_core.Error]] = {
    _INVALID_REQUEST: _core.InvalidRequest,
    2: _core.CompileError,
    3: _core.CacheError,
    4: _core.CudaError,
    5: _core.Unavailable,
    6: _core.InternalError,
    7: _core.KernelFault,
    9: _core.CommunicationError,
}


class Transfer(C.Structure):
    """fa2_transfer."""

    _fields_ = [("receives", C.c_int32), ("peer", C.c_int32), ("data", C.c_void_p), ("bytes", C.c_size_t)]


EXCHANGE = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(Transfer), C.c_size_t, C.c_void_p, C.POINTER(C.c_uint64))
WAIT = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.c_uint64)
ALL_GATHER = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p)


class CommunicatorFunctions(C.Structure):
    """fa2_communicator_functions."""

    _fields_ = [("struct_size", C.c_uint32)] + [(name, C.c_int32) for name in ("rank", "size", "peer_memory")]
    _fields_ += [("data", C.c_void_p), ("exchange", EXCHANGE), ("wait", WAIT), ("all_gather", ALL_GATHER)]


class ContextParallelOptions(C.Structure):
    """fa2_context_parallel_options."""

    _fields_ = [("struct_size", C.c_uint32)]
    _fields_ += [(name, C.c_int32) for name in ("scheme", "groups", "gradients", "row_alignment")]


_handle, _int, _long, _size = C.c_void_p, C.c_int32, C.c_int64, C.c_size_t
_out = C.POINTER(C.c_void_p)
_longs = C.POINTER(C.c_int64)
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "shard_layout_create": (_int, _long, _longs, _size, _int, _long, _out),
    "shard_layout_of_slices": (_long, _int, C.POINTER(_size), _longs, _out),
    "shard_layout_slices": (_handle, _int, C.POINTER(_longs), C.POINTER(_size)),
    "shard_layout_destroy": (_handle,),
    "communicator_create": (C.POINTER(CommunicatorFunctions), _out),
    "nccl_id_make": (C.c_char_p,),
    "nccl_init": (C.c_char_p, _int, _int, _handle, _out),
    "communicator_check": (_handle,),
    "communicator_destroy": (_handle,),
    "context_parallel_plan_create": (
        *(_handle, C.POINTER(Problem), _handle, _longs, _size, _handle),
        *(C.POINTER(ContextParallelOptions), _int, _out),
    ),
    "context_parallel_plan_run": (_handle, C.POINTER(Args), _handle),
    "context_parallel_plan_run_backward": (_handle, C.POINTER(BackwardArgs), _handle),
    "context_parallel_plan_workspace_bytes": (_handle, C.POINTER(_size)),
    "context_parallel_plan_explain": (_handle, _out),
    "context_parallel_plan_destroy": (_handle,),
    "context_parallel_decode_plan_create": (_handle, C.POINTER(Problem), _handle, _handle, _int, _out),
    "context_parallel_decode_plan_run": (_handle, C.POINTER(Args), _handle),
    "context_parallel_decode_plan_workspace_bytes": (_handle, C.POINTER(_size)),
    "context_parallel_decode_plan_explain": (_handle, _out),
    "context_parallel_decode_plan_destroy": (_handle,),
}


def _load() -> Any:
    library = C.CDLL(_core.__file__)  # symbols of the libraries that the extension needs are found too
    for name, arguments in _ARGUMENTS.items():
        getattr(library, f"fa2_{name}").argtypes = arguments
    library.fa2_last_error.restype = C.c_char_p
    library.fa2_string_free.argtypes = (_handle,)
    return library


_library = _load()


def call(name: str, *arguments: Any) -> None:
    """Calls fa2_`name`. Raises the error of its status."""
    try:
        status = getattr(_library, f"fa2_{name}")(*arguments)
    except SystemError as error:  # a signal's handler has raised, and interrupted the call
        raise (error.__cause__ or error) from None
    if status == 0:
        return
    text = _library.fa2_last_error().decode()
    if status == _INVALID_REQUEST and ".dtype = " in text:
        raise _core.InvalidType(text)
    raise _KINDS.get(status, _core.Error)(text)


def made(name: str, *arguments: Any) -> C.c_void_p:
    """Returns the handle that fa2_`name` makes."""
    handle = C.c_void_p()
    call(name, *arguments, C.byref(handle))
    return handle


def text_of(name: str, handle: C.c_void_p) -> str:
    """Returns the text that fa2_`name` makes of a handle."""
    raw = made(name, handle)
    try:
        return C.string_at(raw).decode()
    finally:
        _library.fa2_string_free(raw)


def longs(values: Any) -> Any:
    """Returns an array of int64."""
    return (C.c_int64 * len(values))(*values)
