"""Arithmetic, comparisons and elementary functions of PyTorch as nodes of a recorded function of scores.

numpy's functions have the same names, or synonyms.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

from . import _core
from ._score_printer import TYPES, Node, cast, constant, node
from ._score_values import FUNCTIONS, SYNONYMS, Value, call, refusal

_F = TypeVar("_F", bound=Callable[..., Any])

for _name, _others in {
    "sub": ("subtract",),
    "mul": ("multiply",),
    "div": ("truediv", "true_divide", "divide"),
    "floor_divide": ("floordiv",),
    "remainder": ("mod",),
    "neg": ("negative",),
    "abs": ("absolute", "fabs"),
    "pow": ("power", "float_power"),
    "bitwise_and": ("and",),
    "bitwise_or": ("or",),
    "bitwise_xor": ("xor",),
    "bitwise_not": ("invert",),
    "bitwise_left_shift": ("lshift", "left_shift"),
    "bitwise_right_shift": ("rshift", "right_shift"),
    "lt": ("less",),
    "le": ("less_equal",),
    "gt": ("greater",),
    "ge": ("greater_equal",),
    "eq": ("equal",),
    "ne": ("not_equal",),
    "minimum": ("fmin",),
    "maximum": ("fmax",),
    "clamp": ("clip",),
    "round": ("rint", "special_round"),
    "trunc": ("fix",),
    "sigmoid": ("special_expit",),
    "logsigmoid": ("log_sigmoid",),
    "sign": ("sgn",),
    "clone": ("positive", "contiguous"),
}.items():
    SYNONYMS.update(dict.fromkeys(_others, _name))


def named(*names: str) -> Callable[[_F], _F]:
    """Makes a function known by PyTorch's names."""

    def add(function: _F) -> _F:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return add


def rank_of(x: Any) -> int:
    if isinstance(x, Value):
        return TYPES.index(x.node.type)
    if isinstance(x, (bool, int, float)):
        return TYPES.index("bool" if isinstance(x, bool) else type(x).__name__)
    raise refusal(f"operand = {type(x).__name__}, must be a number, a traced value or a tensor: pass one of these", _core.InvalidType)


def to_node(x: Any, type: str) -> Node:
    """Returns a value or a number as a node of this type."""
    if not isinstance(x, Value):
        rank_of(x)
        return constant(x, type) if type != "bool" else constant(x != 0, type)
    if type in ("int", "long long") and "score" in x.node.reads and x.node.type == "float":
        raise refusal("cast = of a score to an integer, must stay a float: use torch.floor, torch.round or torch.trunc")
    return cast(x.node, type)


def together(*xs: Any, least: str = "bool") -> list[Node]:
    """Returns the operands in their common type, at least `least`. Python's numbers are not wider than int or float."""
    rank = max(TYPES.index(least), *map(rank_of, xs))
    return [to_node(x, TYPES[rank]) for x in xs]


def _made(op: str, type: str, *args: Node) -> Value:
    return Value(node(op, type, *args))


def _is(x: Node, value: float) -> bool:
    return x.op == "const" and x.value == value


def _arithmetic(op: str, of_bools: str | None) -> Callable[[Any, Any], Value]:
    def compute(input: Any, other: Any) -> Value:
        a, b = together(input, other)
        neutral = int(op == "*")  # so that sum() and math.prod() begin with nothing
        if a.type != "bool" and (_is(b, neutral) or (_is(a, neutral) and op != "-")):
            return Value(a if _is(b, neutral) else b)
        if a.type != "bool":
            return _made(op, a.type, a, b)
        if of_bools is None:  # as PyTorch does
            raise refusal(f"operands of {op} = two bools, must be numbers: use ^ or ~, or cast with .int()")
        return _of_bools(of_bools, a, b)

    return compute


_add, _sub, _mul = _arithmetic("+", "||"), _arithmetic("-", None), _arithmetic("*", "&&")
named("mul")(_mul)


@named("add")
def _add_scaled(input: Any, other: Any, alpha: float = 1) -> Any:
    return _add(input, other if alpha == 1 else _mul(other, alpha))


@named("sub")
def _sub_scaled(input: Any, other: Any, alpha: float = 1) -> Any:
    return _sub(input, other if alpha == 1 else _mul(other, alpha))


@named("rsub")
def _rsub(input: Any, other: Any) -> Any:
    return _sub(other, input)


@named("div")
def _div(input: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return _floor_divide(input, other)
    if rounding_mode == "trunc":
        a, b = together(input, other, least="int")
        return _made("/", a.type, a, b) if a.type != "float" else call("trunc", (_div(input, other),))
    a, b = together(input, other, least="float")
    if b.op == "const" and b.value and math.isfinite(b.value) and abs(math.frexp(b.value)[0]) == 0.5 and 2**-100 < abs(b.value) < 2**100:
        return _mul(Value(a), 1 / b.value)  # exact, and faster
    return _made("/", "float", a, b)


def _integers(op: str, input: Any, other: Any) -> tuple[Node, Node]:
    a, b = together(input, other, least="int")
    if a.type != "float" and _is(b, 0):
        raise refusal(f"divisor of {op} = 0, must be another integer")
    return a, b


@named("floor_divide")
def _floor_divide(input: Any, other: Any) -> Value:
    a, b = _integers("//", input, other)
    if a.type != "float" and b.op == "const" and b.value > 0 and b.value & (b.value - 1) == 0:
        return _made(">>", a.type, a, constant(b.value.bit_length() - 1, "int"))
    if a.type != "float" and a.span[0] >= 0 and b.span[0] > 0:
        return _made("/", a.type, a, b)
    if a.type != "long long":
        return _made("floor_div", a.type, a, b)
    quotient, rest = Value(node("/", a.type, a, b)), Value(node("%", a.type, a, b))
    return _sub(quotient, (rest != 0) & ((rest < 0) ^ (Value(b) < 0)))


@named("remainder")
def _remainder(input: Any, other: Any) -> Value:
    a, b = _integers("%", input, other)
    if a.type != "float" and b.op == "const" and b.value > 0 and b.value & (b.value - 1) == 0:
        return _made("&", a.type, a, constant(b.value - 1, a.type))
    if a.type != "float" and a.span[0] >= 0 and b.span[0] > 0:
        return _made("%", a.type, a, b)
    if a.type != "long long":
        return _made("remainder", a.type, a, b)
    rest = Value(node("%", a.type, a, b))
    return where((rest != 0) & ((rest < 0) ^ (Value(b) < 0)), rest + Value(b), rest)


@named("fmod")
def _fmod(input: Any, other: Any) -> Any:
    a, b = _integers("fmod", input, other)
    return _made("%", a.type, a, b) if a.type != "float" else Value(a) - _div(Value(a), Value(b), "trunc") * Value(b)


@named("divmod")
def _divmod(input: Any, other: Any) -> Any:
    return _floor_divide(input, other), _remainder(input, other)


def _unary_float(name: str) -> None:
    named(name, f"special_{name}")(lambda input: _made(name, "float", to_node(input, "float")))


for _name in ("exp", "exp2", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "erf", "tanh", "sigmoid"):
    _unary_float(_name)


def _rounding(name: str) -> None:
    def compute(input: Any, decimals: int = 0) -> Value:
        if decimals != 0:
            raise refusal(f"decimals = {decimals}, must be 0: round a multiple")
        x = to_node(input, TYPES[rank_of(input)])
        return _made(name, "float", x) if x.type == "float" else Value(x)

    named(name)(compute)


for _name in ("floor", "ceil", "round", "trunc"):
    _rounding(_name)


def _extremum(name: str, of_bools: str) -> Callable[[Any, Any], Value]:
    def compute(input: Any, other: Any) -> Value:
        a, b = together(input, other)
        if a.type == "long long":
            return where(Value(a) < Value(b), *((input, other) if name == "min" else (other, input)))
        return _made(of_bools if a.type == "bool" else name, a.type, a, b)

    return compute


_minimum, _maximum = _extremum("min", "&&"), _extremum("max", "||")
named("minimum")(_minimum)
named("maximum")(_maximum)
_NONE: Any = object()


@named("max", "amax")
def _max(input: Any, other: Any = _NONE) -> Any:
    return _maximum(input, other if isinstance(other, Value) else _refuse_reduction("max"))


@named("min", "amin")
def _min(input: Any, other: Any = _NONE) -> Any:
    return _minimum(input, other if isinstance(other, Value) else _refuse_reduction("min"))


def _refuse_reduction(name: str) -> Any:
    raise refusal(f"{name} = over a dimension, must be of two numbers: use torch.maximum, torch.minimum or clamp(min=, max=)")


@named("clamp")
def _clamp(input: Any, min: Any = None, max: Any = None) -> Value:
    x, low, high = together(input, *(input if bound is None else bound for bound in (min, max)), least="int")
    if "score" not in x.reads:
        x = x if min is None else _maximum(Value(x), Value(low)).node
        return Value(x) if max is None else _minimum(Value(x), Value(high))
    # A score at a bound keeps its slope, of which min() and max() would take half.
    value = Value(x) if min is None else where(Value(x) < Value(low), Value(low), Value(x))
    return value if max is None else where(Value(x) > Value(high), Value(high), value)


@named("where")
def where(condition: Any, input: Any, other: Any) -> Value:
    a, b = together(input, other)
    test = to_node(condition, "bool")
    if test.op == "const":
        return Value(a if test.value else b)
    return _made("select", a.type, test, a, b)


@named("where_of_method")
def _where_of_method(input: Any, condition: Any, other: Any) -> Value:
    return where(condition, input, other)


@named("masked_fill")
def _masked_fill(input: Any, mask: Any, value: Any) -> Any:
    return where(mask, to_value(value, TYPES[rank_of(input)]), input)


def to_value(x: Any, type: str) -> Value:
    return Value(to_node(x, type))


def _compare(name: str, op: str) -> None:
    def compare(input: Any, other: Any) -> Value:
        a, b = together(input, other)
        if a.op == b.op == "const":
            return Value(constant(getattr(operator, name)(a.value, b.value), "bool"))
        return _made(op, "bool", a, b)

    named(name)(compare)


for _name, _op in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    _compare(_name, _op)


def _of_bools(op: str, a: Node, b: Node) -> Value:
    """Returns a && b, a || b or a != b. Masks that others are combined with may be constants."""
    if a.op == "const":
        a, b = b, a
    if b.op != "const":
        return _made(op, "bool", a, b)
    if op == "!=":
        return _made("!", "bool", a) if b.value else Value(a)
    return Value(a if b.value == (op == "&&") else b)


def _logic(name: str, of_bools: str, op: str) -> None:
    def bitwise(input: Any, other: Any) -> Value:
        a, b = together(input, other)
        if a.type == "float":
            raise refusal(f"operand of {op} = float, must be a bool or an integer: compare it, or cast it with .int()", _core.InvalidType)
        return _of_bools(of_bools, a, b) if a.type == "bool" else _made(op, a.type, a, b)

    named(f"bitwise_{name}")(bitwise)
    named(f"logical_{name}")(lambda input, other: _of_bools(of_bools, to_node(input, "bool"), to_node(other, "bool")))


for _name, _bools, _op in (("and", "&&", "&"), ("or", "||", "|"), ("xor", "!=", "^")):
    _logic(_name, _bools, _op)


@named("logical_not")
def _logical_not(input: Any) -> Value:
    return _made("!", "bool", to_node(input, "bool"))


@named("bitwise_not")
def _bitwise_not(input: Any) -> Value:
    x = input.node
    if x.type == "float":
        raise refusal("operand of ~ = float, must be a bool or an integer: compare it, or cast it with .int()", _core.InvalidType)
    return _made("!" if x.type == "bool" else "~", x.type, x)


def _shift(name: str, op: str) -> None:
    def compute(input: Any, other: Any) -> Value:
        a, count = together(input, other, least="int")
        if a.type == "float":
            raise refusal(f"operand of {op} = float, must be an integer: cast it with .int()", _core.InvalidType)
        last = 31 if a.type == "int" else 63
        if count.span[0] >= 0 and count.span[1] <= last:
            return _made(op, a.type, a, count)
        # C++ leaves other shifts undefined; PyTorch shifts all bits out.
        is_inside = (Value(count) <= last) & (count.span[0] >= 0 or Value(count) >= 0)
        if op == ">>":
            return _made(op, a.type, a, to_node(where(is_inside, Value(count), last), a.type))
        return where(is_inside, _made(op, a.type, a, to_node(Value(count) & last, a.type)), 0)

    named(f"bitwise_{name}_shift")(compute)


_shift("left", "<<")
_shift("right", ">>")


@named("neg")
def _neg(input: Any) -> Value:
    x = input.node
    if x.type == "bool":
        raise refusal("operand of - = bool, must be a number: use ~ to negate a condition")
    return Value(constant(-x.value, x.type)) if x.op == "const" else _made("-", x.type, x)


@named("abs")
def _abs(input: Any) -> Value:
    x = to_node(input, TYPES[max(1, rank_of(input))])
    if x.span[0] >= 0 and x.type != "float":
        return Value(x)
    return where(Value(x) < 0, -Value(x), Value(x)) if x.type == "long long" else _made("abs", x.type, x)


def _power(x: Value, exponent: int) -> Value:
    """Returns x ** exponent by squares, for exponent >= 1."""
    if exponent == 1:
        return x
    half = _power(x, exponent // 2)
    return _mul(_mul(half, half), x) if exponent % 2 else _mul(half, half)


@named("pow")
def _pow(input: Any, exponent: Any) -> Any:
    if isinstance(exponent, Value) and exponent.node.op == "const":
        exponent = exponent.node.value
    if isinstance(exponent, Value):
        a, b = together(input, exponent, least="int")
        if a.type == "float":
            return _made("exp2", "float", b) if _is(a, 2) else _made("pow", "float", a, b)
        if _is(a, 2):
            return where(Value(b) < 0, 0, call("bitwise_left_shift", (Value(constant(1, a.type)), Value(b))))
        raise refusal("power = of an integer to a traced integer, must have a base of 2 or a float: cast one with .float()")
    if isinstance(exponent, int) or (exponent.is_integer() and abs(exponent) <= 8):
        x = to_value(input, TYPES[max(1, rank_of(input), rank_of(exponent))])
        whole = int(exponent)
        if whole > 0 and (whole <= 8 or x.node.type != "float"):
            return _power(x, whole)
        if whole == 0:
            return Value(constant(1, x.node.type))
        if x.node.type != "float":
            raise refusal(f"exponent = {exponent} of an integer, must be 0 or more: cast the base with .float()")
        if whole >= -8:
            return _div(1, _power(x, -whole))
    if exponent in (0.5, -0.5):
        return call("sqrt" if exponent > 0 else "rsqrt", (input,))
    return _made("pow", "float", to_node(input, "float"), constant(exponent, "float"))
