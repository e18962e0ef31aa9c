"""Attention of numpy arrays, on the interpreter."""

from __future__ import annotations

from typing import Any

import numpy

from . import _core, _hooks
from ._call import Options, rows_may_be_unused


def _contiguous(array: Any) -> Any:
    """With a contiguous last dimension."""
    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"tensor = {type(array).__name__}, must be a PyTorch tensor or a numpy array")
    _hooks.require_plain(array)
    return array if array.strides[-1:] in ((), (array.itemsize,)) else numpy.ascontiguousarray(array)


def _float32(sinks: Any) -> Any:
    given = numpy.asanyarray(sinks)
    _hooks.require_plain(given)
    try:
        return numpy.ascontiguousarray(given, dtype=numpy.float32)
    except (TypeError, ValueError):
        raise TypeError(f"sinks = {type(sinks).__name__}, must be numbers, one per head") from None


def _prepared(options: Options) -> Options:
    if options.dropout_p and options.dropout_state is None:
        state = numpy.random.randint(0, 2**62, 2, dtype=numpy.int64)
        options = options._replace(dropout_state=state)
    if options.sinks is not None:
        options = options._replace(sinks=_float32(options.sinks))
    return options


def _outputs(q: Any, v: Any, options: Options) -> tuple[Any, Any]:
    if q.ndim not in (3, 4):
        raise _core.InvalidRequest("q must be (batch, seqlen, heads, head_dim), or (total, heads, head_dim) packed")
    make = numpy.zeros if rows_may_be_unused(options.cu_seqlens_q, options.seqused_q) else numpy.empty
    shape = q.shape[:-1] + v.shape[-1:]
    rows = (q.shape[0], q.shape[2], q.shape[1]) if q.ndim == 4 else (q.shape[1], q.shape[0])
    return make(shape, q.dtype), make(rows, numpy.float32)


def attend(
    q: Any, k: Any, v: Any, out: Any, return_lse: bool, deterministic: bool, autocast: bool, given: Any
) -> Any:
    options = _prepared(Options._make(given))
    q, k, v = _contiguous(q), _contiguous(k), _contiguous(v)
    made, lse = _outputs(q, v, options)
    out = made if out is None else out
    _core.forward(True, q, k, v, out, lse if return_lse else None, options)
    return (out, lse) if return_lse else out


def explain(q: Any, k: Any, v: Any, gradients: int, options: Options) -> str:
    q, k, v = _contiguous(q), _contiguous(k), _contiguous(v)
    out, _ = _outputs(q, v, options)
    return _core.explain(gradients, 0, q, k, v, out, None, _prepared(options))


def tune(q: Any, k: Any, v: Any, gradients: int, every: bool, options: Options) -> str:
    q, k, v = _contiguous(q), _contiguous(k), _contiguous(v)
    out, _ = _outputs(q, v, options)
    return _core.tune(gradients, every, q, k, v, out, None, _prepared(options))
