"""The values that a traced function of scores computes with, and the tensors that it indexes with them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from . import _core
from ._score_printer import Node, cast, constant, node

#: Types of C++ by dtypes of tensors.
DTYPES = {
    **dict.fromkeys(("float16", "bfloat16", "float32"), "float"),
    **dict.fromkeys(("int32", "int16", "int8", "uint8"), "int"),
    "int64": "long long",
    "bool": "bool",
}
_MOST_DIMENSIONS = 4  # of a capture: kMostCaptureDimensions of fa2/score_text.h
_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1)}
_LIBRARIES = frozenset(("fa2", "torch", "numpy", "functools"))
_INSTEAD = (
    "use & for and, | for or, ~ for not, (a <= b) & (b < c) for a <= b < c, torch.where(c, x, y) for if, "
    "torch.minimum(a, b) and torch.maximum(a, b) for min and max"
)
#: By names of _score_torch.py, which fills it: what functions make of values, numbers, dtypes.
FUNCTIONS: dict[str, Callable[..., Any]] = {}
#: Other names of these.
SYNONYMS: dict[str, str] = {}
ARRAYS = "pass arrays of numpy as fa2.Table(array), and make tensors of lists before the call"


def is_library(frame: FrameType) -> bool:
    """Returns whether a call runs code of fa2, or of what may call it back, rather than the user's."""
    return frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES


def place() -> str:
    """Returns "FILE:LINE" of the user's code that now runs."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_library(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refusal(text: str, kind: type[_core.InvalidRequest] = _core.InvalidRequest) -> _core.InvalidRequest:
    """Returns the error about the line that now runs."""
    return kind(f"{place()}: {text}")


class UnknownFunction(_core.InvalidRequest, AttributeError):
    """So that hasattr() and getattr() with a default work."""


def _binary(name: str) -> Callable[[Any, Any], Value]:
    return lambda self, other: call(name, (self, other))


def _swapped(name: str) -> Callable[[Any, Any], Value]:
    return lambda self, other: call(name, (other, self))


def _unary(name: str) -> Callable[[Any], Value]:
    return lambda self: call(name, (self,))


def _in_place(self: Any, other: Any) -> Any:
    raise refusal("operation = in place, must make a new value: write x = x + y for x += y, and x.clamp(...) for x.clamp_(...)")


def _conversion(name: str, do: str) -> Callable[[Any], Any]:
    def refuse(self: Any) -> Any:
        raise refusal(f"{name} = a traced value, must be known while the function is traced: {do}")

    return refuse


class Value:
    """A number that depends on positions or the score, which PyTorch's functions take as a tensor without dimensions."""

    __slots__ = ("node",)
    ndim, shape = 0, ()
    requires_grad = False

    def __init__(self, node: Node) -> None:
        self.node = node

    __add__, __radd__ = _binary("add"), _swapped("add")
    __sub__, __rsub__ = _binary("sub"), _swapped("sub")
    __mul__, __rmul__ = _binary("mul"), _swapped("mul")
    __truediv__, __rtruediv__ = _binary("div"), _swapped("div")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _swapped("floor_divide")
    __mod__, __rmod__ = _binary("remainder"), _swapped("remainder")
    __pow__, __rpow__ = _binary("pow"), _swapped("pow")
    __and__, __rand__ = _binary("bitwise_and"), _swapped("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or"), _swapped("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _swapped("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift"), _swapped("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift"), _swapped("bitwise_right_shift")
    __lt__, __le__, __gt__, __ge__ = _binary("lt"), _binary("le"), _binary("gt"), _binary("ge")
    __eq__, __ne__ = _binary("eq"), _binary("ne")  # type: ignore[assignment]
    __hash__ = object.__hash__
    __neg__, __abs__, __invert__, __pos__ = _unary("neg"), _unary("abs"), _unary("bitwise_not"), _unary("clone")
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = _in_place
    __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = _in_place
    __bool__ = _conversion("condition", _INSTEAD)
    __int__ = _conversion("operand of int()", "use x.int()")
    __float__ = _conversion("operand of float()", "use x.float(), and torch's functions for those of math")
    __index__ = _conversion("index or count", f"{ARRAYS}; loops must have fixed counts")
    __len__ = __iter__ = _conversion("operand of a loop", "positions and scores are numbers without dimensions")

    def __getitem__(self, key: Any) -> Any:
        raise refusal("indexed value = a number, must be a tensor: positions and scores have no dimensions")

    def __setitem__(self, key: Any, value: Any) -> None:
        _in_place(self, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        name = _METHODS.get(name, name)
        function(name, UnknownFunction)
        return lambda *args, **keywords: call(name, (self, *args), keywords)

    @property
    def dtype(self) -> Any:
        name = {"float": "float32", "int": "int32", "long long": "int64"}.get(self.node.type, "bool")
        torch = sys.modules.get("torch")
        return name if torch is None else getattr(torch, name)

    @property
    def device(self) -> Any:
        torch = sys.modules.get("torch")
        return "cpu" if torch is None else torch.device("cpu")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
        return call_torch(function, args, keywords)

    def __array_ufunc__(self, function: Any, method: str, *args: Any, **keywords: Any) -> Any:
        return call(function.__name__ if method == "__call__" else f"{function.__name__}.{method}", args, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return call(function.__name__, args, keywords)


def function(name: str, kind: type[_core.InvalidRequest] = _core.InvalidRequest) -> Callable[..., Any]:
    """Returns the function of this name, of PyTorch, numpy or an operator's method. Refuses one that fa2 does not know, with `kind`."""
    plain = name.strip("_")
    if not name.endswith("_") or name.endswith("__"):
        found = FUNCTIONS.get(SYNONYMS.get(plain, plain))
        if found is not None:
            return found
    if name.endswith("_") and plain != "contains":
        _in_place(None, None)
    raise refusal(f"function = {plain}, must be one of single numbers, such as torch.where, exp, tanh, floor: {_do(plain)}", kind)


def is_random(name: str) -> bool:
    if name.startswith("__"):  # such as __rand__, which is &
        return False
    return "rand" in name or name.strip("_") in ("bernoulli", "dropout", "multinomial", "normal", "poisson", "uniform")


def _do(name: str) -> str:
    what = "random numbers" if is_random(name) else "sums, products of matrices and the like"
    return f"compute {what} before the call, and index their tensor"


def call(name: str, args: tuple[Any, ...], keywords: dict[str, Any] | None = None) -> Any:
    """Returns what a function of PyTorch or numpy makes of values."""
    if name == "__getitem__":
        return load(args[0], (None,) * len(args[0].shape), args[1])
    found = function(name)
    given = {key: lift(x) for key, x in (keywords or {}).items() if key not in _IGNORED}
    if given.pop("out", None) is not None or given.pop("inplace", False):
        _in_place(None, None)
    try:
        return found(*map(lift, args), **given)
    except TypeError as error:
        if isinstance(error, _core.Error):
            raise
        problem = re.sub(r"^\S+\(\) ", "", str(error))  # without the name of fa2's function
        text = f"arguments of {name.strip('_')} = wrong: {problem}, must be PyTorch's for a number: see its documentation"
        raise refusal(text, _core.InvalidType) from error


def call_torch(function: Any, args: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
    """Returns call() of one of PyTorch's functions, or methods of its tensors."""
    name = function.__name__.partition(".")[0]  # without the overload
    is_method = hasattr(function, "__objclass__")
    return call(_METHODS.get(name, name) if is_method else name, args, keywords)


#: Methods that take other arguments than the functions of their names.
_METHODS = {"where": "where_of_method"}
#: Keywords without a meaning for single numbers.
_IGNORED = frozenset(("device", "requires_grad", "layout", "pin_memory", "memory_format", "non_blocking", "copy"))


class Source:
    """What a load reads: a tensor, and what tells it from others."""

    __slots__ = ("dtype", "key", "span", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        self.span = _RANGES.get(self.dtype)
        if self.dtype not in DTYPES:
            raise refusal(
                f"captured tensor.dtype = {self.dtype}, must be {', '.join(DTYPES)}: cast it, with tensor.float() or array.astype('float32')",
                _core.InvalidType,
            )
        if len(tensor.shape) > _MOST_DIMENSIONS:
            given = f"captured tensor.shape = {tuple(tensor.shape)}, must have at most {_MOST_DIMENSIONS} dimensions"
            raise refusal(f"{given} besides those with plain indices: flatten some")
        self.key = _key_of(tensor)


def _key_of(tensor: Any) -> tuple[Any, ...]:
    """Returns what views of the same elements share, though each access makes a new object: where they lie, and as what."""
    interface = getattr(tensor, "__array_interface__", None) if not hasattr(tensor, "data_ptr") else None
    if interface is not None:
        return (interface["data"][0], tensor.shape, tensor.strides, str(tensor.dtype))
    try:
        return (
            tensor.data_ptr() or id(tensor),
            *map(str, (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad)),
        )
    except (AttributeError, RuntimeError):  # tensors without memory, such as those of shapes alone
        return (id(tensor),)


class Partial:
    """A tensor some of whose dimensions have traced indices. index: None for those to come."""

    __slots__ = ("index", "tensor")

    def __init__(self, tensor: Any, index: tuple[Node | None, ...]) -> None:
        self.tensor, self.index = tensor, index

    def __getitem__(self, key: Any) -> Any:
        return load(self.tensor, self.index, key)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n for n, i in zip(self.tensor.shape, self.index) if i is None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _not_a_number(self)

    def _refuse(self, *args: Any, **keywords: Any) -> Any:
        raise _not_a_number(self)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __lt__ = __le__ = __gt__ = __ge__ = __invert__ = __array_ufunc__ = _refuse
    __bool__ = __index__ = __float__ = __iter__ = __setitem__ = __pow__ = __mod__ = __floordiv__ = __matmul__ = _refuse
    __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
        return call_torch(function, args, keywords)


def _not_a_number(tensor: Any) -> _core.InvalidRequest:
    shape = tuple(tensor.shape)
    return refusal(f"operand.shape = {shape}, must be (), as traced values have: index all dimensions with positions or integers")


class Table:
    """A tensor or an array that functions of scores may index with positions: Table(array)[head, query - key]."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array: Any = array.array if isinstance(array, Table) else array
        if not hasattr(self.array, "shape") or not hasattr(self.array, "dtype"):
            raise _core.InvalidType(f"array = {type(array).__name__}, must be a PyTorch tensor or a numpy array: pass numpy.asarray(array)")

    def __getitem__(self, key: Any) -> Any:
        if is_traced(key):
            return load(self.array, (None,) * len(self.array.shape), key)
        result = self.array[key]
        return Table(result) if getattr(result, "shape", ()) else result

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> Any:
        return self.array.dtype


def is_traced(x: Any) -> bool:
    """Returns whether x is, or holds, a traced value."""
    if isinstance(x, (tuple, list)):
        return any(map(is_traced, x))
    return isinstance(x, (Value, Partial))


def load(tensor: Any, index: tuple[Node | None, ...], key: Any) -> Any:
    """Returns the element, or a Partial if dimensions are left. index: of each dimension so far, None for none."""
    left = [at for at, x in enumerate(index) if x is None]
    traced: list[Node | None] = list(index)
    plain: list[Any] = [slice(None)] * len(index)
    for at, x in zip(left, _keys(key, len(left), tuple(tensor.shape))):
        if _is_plain(x):
            plain[at] = x
        else:
            traced[at] = _index_node(x)
    if any(x != slice(None) for x in plain):  # the library makes a view of what is known now
        tensor = tensor[tuple(plain)]
        traced = [x for x, known in zip(traced, plain) if isinstance(known, slice)]
    if None in traced:
        return Partial(tensor, tuple(traced))
    wrapped = (_wrapped(x, size) for x, size in zip(traced, tensor.shape) if x is not None)
    source = Source(tensor)
    return Value(node("load", DTYPES[source.dtype], *wrapped, value=source))


def _keys(key: Any, count: int, shape: tuple[int, ...]) -> list[Any]:
    """Returns an index as one for each of the first dimensions, without dots. count: dimensions that are left."""
    keys = [lift(x) for x in (key if isinstance(key, tuple) else (key,))]
    dots = [at for at, x in enumerate(keys) if x is Ellipsis]
    given = len(keys) - len(dots)
    if len(dots) > 1 or given > count:
        raise refusal(f"index = of {given} dimensions, must be of at most {count} for shape {shape}: give one number for each dimension")
    if dots:
        keys[dots[0] : dots[0] + 1] = [slice(None)] * (count - given)
    return keys


def _is_plain(x: Any) -> bool:
    if isinstance(x, slice):
        return not is_traced([x.start, x.stop, x.step])
    return isinstance(x, int) and not isinstance(x, bool)


def _index_node(x: Any) -> Node:
    if isinstance(x, Value) and x.node.type in ("int", "long long"):
        return cast(x.node, "int")
    given = x.node.type if isinstance(x, Value) else type(x).__name__
    raise refusal(
        f"index = {given}, must be an integer or a slice of integers: index one dimension after the other, cast with .int()",
        _core.InvalidType,
    )


def _wrapped(x: Node, size: int) -> Node:
    """Returns an index with Python's meaning of negative ones."""
    if x.span[0] >= 0:
        return x
    return node("select", "int", node("<", "bool", x, constant(0, "int")), node("+", "int", x, constant(size, "int")), x)


def lift(x: Any) -> Any:
    """Returns tensors without dimensions as values, and numbers as Python's. Refuses tensors that have dimensions."""
    if isinstance(x, (Value, bool, int, float)) or not hasattr(x, "shape"):
        return x
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.generic):
        return x.item()
    if isinstance(x, Table):
        x = x.array
    if tuple(x.shape):
        raise _not_a_number(x)
    return load(x, (), ())
