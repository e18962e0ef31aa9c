"""Attention of numpy arrays, on the interpreter."""

from __future__ import annotations

from typing import Any

import numpy

from . import _core, _hooks, _score_tiles
from ._call import Options


def _prepared(q: Any, k: Any, v: Any, options: Options) -> Any:
    """Returns the options with a mask for dropout, sinks in float32, and texts that read tiles where captures fit."""
    for tensor in (q, k, v):
        if not isinstance(tensor, numpy.ndarray):
            raise _core.InvalidType(f"tensor = {_hooks.text_of(tensor)}, must be a PyTorch tensor or a numpy array")
    if options.dropout_p and options.dropout_state is None:
        options = options._replace(dropout_state=numpy.random.randint(0, 2**62, 2, dtype=numpy.int64))
    if options.sinks is not None:
        options = options._replace(sinks=_float32(options.sinks))
    return _score_tiles.with_tiles(options, q, k)


def _float32(sinks: Any) -> Any:
    given = numpy.asanyarray(sinks)
    if (wrong := _hooks.complaint(given)) is not None:
        raise _core.InvalidRequest(f"sinks = {wrong}")
    try:
        return numpy.ascontiguousarray(given, dtype=numpy.float32)
    except (TypeError, ValueError):
        raise _core.InvalidType(f"sinks = {_hooks.text_of(sinks)}, must be numbers, one per head") from None


def attend(
    q: Any, k: Any, v: Any, out: Any, return_lse: bool, deterministic: bool, autocast: bool, given: Any
) -> Any:
    """Returns what attention() does. `given`: a tuple like Options."""
    return _core.forward(q, k, v, out, _prepared(q, k, v, Options._make(given)), return_lse, True)


def explain(q: Any, k: Any, v: Any, options: Options, gradients: int) -> str:
    """Returns explain()'s JSON."""
    return _core.explain(q, k, v, _prepared(q, k, v, options), gradients)


def tune(q: Any, k: Any, v: Any, options: Options, gradients: int, every: bool) -> str:
    """Returns tune()'s JSON."""
    return _core.tune(q, k, v, _prepared(q, k, v, options), gradients, every)
