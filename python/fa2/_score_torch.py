"""Casts, constants and activations of PyTorch in a recorded function of scores, and how PyTorch's calls reach them."""

from __future__ import annotations

import functools
import math
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import _core
from ._score_functions import named, rank_of, to_value, where
from ._score_printer import TYPES
from ._score_values import (
    DTYPES,
    Value,
    call,
    call_torch,
    is_random,
    is_traced,
    refusal,
)

#: Casts may name these types as well, of Python and numpy.
_CASTS = {**DTYPES, "float64": "float", "float": "float", "int": "long long", "bool_": "bool"}


def _type_of(dtype: Any) -> str:
    name = getattr(dtype, "__name__", None) or str(dtype).removeprefix("torch.")
    if name not in _CASTS:
        raise refusal(f"dtype = {name}, must be one of {', '.join(DTYPES)}: cast to float32, int32 or bool", _core.InvalidType)
    return _CASTS[name]


def _is_dtype(x: Any) -> bool:
    return isinstance(x, type) or type(x).__name__ == "dtype" or str(x) in _CASTS


@named("to", "type", "type_as", "astype")
def _to(input: Any, *targets: Any, dtype: Any = None, other: Any = None) -> Any:
    for target in (*targets, dtype, other):
        if isinstance(target, Value):
            return to_value(input, target.node.type)
        if target is not None and _is_dtype(target):
            return to_value(input, _type_of(target))
    return input  # to another device


def _cast_method(name: str, type: str) -> None:
    named(name)(lambda input: to_value(input, type))


for _name, _type in {
    **dict.fromkeys(("float", "half", "bfloat16", "double"), "float"),
    **dict.fromkeys(("int", "short", "char", "byte"), "int"),
    "long": "long long",
    "bool": "bool",
}.items():
    _cast_method(_name, _type)


@named("clone")
def _clone(input: Any) -> Any:
    return input


@named("detach")
def _detach(input: Any) -> Any:
    if "score" in input.node.reads:
        raise refusal("detach() = of a score, must keep the slope: leave it out")
    return input


@named("item", "tolist")
def _item(input: Any) -> Any:
    raise refusal("item() = of a traced value, must not depend on positions or scores: compute with the value itself")


@named("dim")
def _dim(input: Any) -> int:
    return 0


@named("size")
def _size(input: Any) -> tuple[int, ...]:
    return ()


@named("numel")
def _numel(input: Any) -> int:
    return 1


@named("is_floating_point")
def _is_floating_point(input: Any) -> bool:
    return rank_of(input) == TYPES.index("float")


def _filled(like: Any, value: Any, dtype: Any) -> Value:
    return to_value(value, TYPES[rank_of(like)] if dtype is None else _type_of(dtype))


@named("full_like", "new_full_like")
def _full_like(input: Any, fill_value: Any, dtype: Any = None) -> Value:
    return _filled(input, fill_value, dtype)


@named("zeros_like")
def _zeros_like(input: Any, dtype: Any = None) -> Value:
    return _filled(input, 0, dtype)


@named("ones_like")
def _ones_like(input: Any, dtype: Any = None) -> Value:
    return _filled(input, 1, dtype)


def _check_size(size: Any) -> None:
    if tuple(size):
        raise refusal(f"size = {tuple(size)}, must be (): make tensors with dimensions before the call")


@named("new_full")
def _new_full(input: Any, size: Any, fill_value: Any, dtype: Any = None) -> Value:
    _check_size(size)
    return _filled(input, fill_value, dtype)


@named("new_zeros")
def _new_zeros(input: Any, size: Any = (), dtype: Any = None) -> Value:
    return _new_full(input, size, 0, dtype)


@named("new_ones")
def _new_ones(input: Any, size: Any = (), dtype: Any = None) -> Value:
    return _new_full(input, size, 1, dtype)


@named("tensor", "as_tensor", "asarray", "scalar_tensor")
def _tensor(data: Any, dtype: Any = None) -> Value:
    # Integers are int, not PyTorch's int64, which would make all arithmetic with them slow.
    return to_value(data, TYPES[rank_of(data)] if dtype is None else _type_of(dtype))


@named("new_tensor")
def _new_tensor(input: Any, data: Any, dtype: Any = None) -> Value:
    return _tensor(data, dtype)


@named("full")
def _full(size: Any, fill_value: Any, dtype: Any = None) -> Value:
    _check_size(size)
    return _tensor(fill_value, dtype)


@named("sign")
def _sign(input: Any) -> Any:
    return to_value(where(input > 0, 1, where(input < 0, -1, 0)), TYPES[max(1, rank_of(input))])


@named("isnan")
def _isnan(input: Any) -> Any:
    return call("ne", (input, input))


@named("isinf")
def _isinf(input: Any) -> Any:
    return call("abs", (input,)) == math.inf


@named("isfinite")
def _isfinite(input: Any) -> Any:
    return call("abs", (input,)) < math.inf


@named("square")
def _square(input: Any) -> Any:
    return call("pow", (input, 2))


@named("reciprocal")
def _reciprocal(input: Any) -> Any:
    return 1 / input


@named("lerp")
def _lerp(input: Any, end: Any, weight: Any) -> Any:
    return input + weight * (end - input)


@named("addcmul")
def _addcmul(input: Any, tensor1: Any, tensor2: Any, value: float = 1) -> Any:
    return input + (tensor1 * tensor2 if value == 1 else value * tensor1 * tensor2)


@named("tan")
def _tan(input: Any) -> Any:
    return call("sin", (input,)) / call("cos", (input,))


@named("expm1", "special_expm1")
def _expm1(input: Any) -> Any:
    half = call("tanh", (input * 0.5,))  # exact near 0, where exp(x) - 1 is not
    return 2 * half / (1 - half)


@named("log10")
def _log10(input: Any) -> Any:
    return call("log", (input,)) * (1 / math.log(10))


# Activations. Where two parts of one meet, the slope is PyTorch's.
@named("relu")
def _relu(input: Any) -> Any:
    return where(input > 0, input, 0) if "score" in input.node.reads else call("clamp", (input, 0))


@named("relu6")
def _relu6(input: Any) -> Any:
    return _hardtanh(input, 0.0, 6.0)


@named("hardtanh")
def _hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    return where(input <= min_val, min_val, where(input >= max_val, max_val, input))


@named("leaky_relu")
def _leaky_relu(input: Any, negative_slope: float = 0.01) -> Any:
    return where(input > 0, input, input * negative_slope)


@named("elu")
def _elu(input: Any, alpha: float = 1.0) -> Any:
    return where(input > 0, input, alpha * (call("exp", (input,)) - 1))


@named("silu")
def _silu(input: Any) -> Any:
    return input * call("sigmoid", (input,))


@named("softplus")
def _softplus(input: Any, beta: float = 1, threshold: float = 20) -> Any:
    scaled = input * beta if beta != 1 else input
    soft = call("log1p", (call("exp", (scaled,)),))
    return where(scaled > threshold, input, soft / beta if beta != 1 else soft)


@named("logsigmoid")
def _logsigmoid(input: Any) -> Any:
    return call("minimum", (input, 0.0)) - call("log1p", (call("exp", (-abs(input),)),))


@named("mish")
def _mish(input: Any) -> Any:
    return input * call("tanh", (_softplus(input),))


@named("gelu")
def _gelu(input: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        inner = call("tanh", (math.sqrt(2 / math.pi) * (input + 0.044715 * _square(input) * input),))
    else:
        inner = call("erf", (input * math.sqrt(0.5),))
    return 0.5 * input * (1 + inner)


#: What makes a tensor without dimensions of a number, and where the size stands among its arguments.
_CONSTANTS = {"tensor": None, "as_tensor": None, "asarray": None, "scalar_tensor": None, "full": "size"}
_FILLED = {"zeros": 0, "ones": 1}


def _constant_of(name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Value | None:
    """Returns what torch.tensor(number) and the like make during a trace: a number. Else None."""
    if name in _FILLED:
        size = args[0] if args else keywords.get("size")
        if len(args) <= 1 and isinstance(size, (tuple, list)) and not size:
            return _full((), _FILLED[name] * (1.0 if keywords.get("dtype") is None else 1), keywords.get("dtype"))
    elif name in _CONSTANTS:
        at = 1 if _CONSTANTS[name] else 0
        size = args[0] if at and args else keywords.get("size", ())
        if isinstance(size, (tuple, list)) and not size and len(args) > at and isinstance(args[at], (bool, int, float)):
            return _tensor(args[at], keywords.get("dtype"))
    return None


#: What depends on no element of a tensor; __get__ is that of shape, dtype and the like.
_OF_SHAPES = frozenset(("__get__", "__getitem__", "__len__", "device", "dim", "numel", "size", "stride"))


@functools.cache
def _mode() -> Any:
    from torch.overrides import TorchFunctionMode

    class Interception(TorchFunctionMode):
        """Takes calls that have traced values among their arguments, above all tensor[values], and refuses random numbers."""

        calls = 0  #: of functions that PyTorch computed during traces, in this process

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            if is_random(name) or is_traced(args) or is_traced(list(kwargs.values())):
                return call_torch(func, args, kwargs)
            made = _constant_of(name, args, kwargs)
            if made is None and name not in _OF_SHAPES:
                Interception.calls += 1
            return func(*args, **kwargs) if made is None else made

    return Interception


def interception() -> AbstractContextManager[Any]:
    """Returns a context in which PyTorch's tensors take traced values as indices. Without PyTorch it does nothing."""
    return _mode()() if "torch" in sys.modules else nullcontext()


def eager_calls() -> int:
    """Returns how many functions traces have let PyTorch compute. A trace that adds some may depend on elements of tensors."""
    return _mode().calls if "torch" in sys.modules else 0
