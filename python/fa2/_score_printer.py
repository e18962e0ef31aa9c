"""Recorded functions of scores: their graph, and the graph as the C++ text that fa2's kernels take."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

#: Types of C++, in the order of promotion. A float that depends on the score has the type Score in the text.
TYPES = ("bool", "int", "long long", "float")
_BITS = {"bool": 1, "int": 32, "long long": 64}

#: Infix operators, and how strongly each binds. Others bind more strongly.
_BINDS: dict[str, int] = {
    **dict.fromkeys(("*", "/", "%"), 10),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("<", "<=", ">", ">="), 7),
    **dict.fromkeys(("==", "!="), 6),
    "&": 5,
    "^": 4,
    "|": 3,
    "&&": 2,
    "||": 1,
}
_ASSOCIATIVE = frozenset(("&", "^", "|", "&&", "||"))
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))
_PLAIN = frozenset(("const", "position", "score", "cast"))  # never a statement of their own
_QUICK = _PLAIN | (_BINDS.keys() - {"/", "%"}) | {"!", "~"}
_LONGEST = 100  # characters of an expression that stands within another

Span = tuple[int, int]


class Node:
    """An operation and its operands. Immutable.

    op: an operator or a function of the texts' C++; or const, position, score, load, cast.
    type: one of TYPES.
    value: a constant's number, a position's text, or what a load reads, which has a `key` that tells it from others.
    reads: which of score, batch, head, query, key the value depends on.
    span: the least and the greatest value, without regard to overflow; of no meaning for floats.
    """

    __slots__ = ("args", "op", "reads", "span", "type", "value")

    def __init__(self, op: str, type: str, args: tuple[Node, ...] = (), value: Any = None) -> None:
        self.op, self.type, self.args, self.value = op, type, args, value
        self.reads: frozenset[str] = frozenset().union(*(x.reads for x in args))
        if op in ("position", "score"):
            self.reads = frozenset((value.rpartition(".")[2],))
        self.span = _span(self)


def node(op: str, type: str, *args: Node, value: Any = None) -> Node:
    return Node(op, type, args, value)


def constant(value: float, type: str) -> Node:
    """Returns a number as `type`. Integers wrap, as PyTorch's Python scalars do."""
    if type == "bool":
        return node("const", type, value=bool(value))
    if type == "float":
        return node("const", type, value=float(value))
    bits = _BITS[type]
    wrapped = (int(value) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    return node("const", type, value=wrapped)


def cast(x: Node, type: str) -> Node:
    """Returns x as another type, as PyTorch converts: floats to integers by truncation, numbers to bool by != 0."""
    if x.type == type:
        return x
    if x.op == "const" and not (x.type == "float" and not math.isfinite(x.value)):
        return constant(x.value, type)
    if type == "bool":
        return node("!=", "bool", x, constant(0, x.type))
    return node("cast", type, x)


def _corners(a: Span, b: Span, operation: Callable[[int, int], int]) -> Span:
    values = [operation(x, y) for x in a for y in b]
    return min(values), max(values)


def _span(x: Node) -> Span:
    bits = _BITS.get(x.type, 64)
    every = (0, 1) if bits == 1 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if x.type not in ("int", "long long") or any(a.type == "float" for a in x.args):
        return every
    spans = [a.span for a in x.args]
    rule = _SPANS.get(x.op)
    if rule is not None and len(spans) == 2:
        return rule(*spans) or every
    if x.op == "const":
        return (x.value, x.value)
    if x.op == "position":
        return (0, 2**31 - 1)
    if x.op == "load":
        return x.value.span or every
    if x.op == "cast" and (x.type == "long long" or spans[0][0] >= 0):
        return spans[0]
    if x.op == "-":
        return (-spans[0][1], -spans[0][0])
    if x.op == "abs":
        return (0, max(-spans[0][0], spans[0][1]))
    if x.op == "select":
        return (min(spans[1][0], spans[2][0]), max(spans[1][1], spans[2][1]))
    return every


#: Spans of two operands; None: unknown.
_SPANS: dict[str, Callable[[Span, Span], Span | None]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": lambda a, b: _corners(a, b, lambda x, y: x * y),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "/": lambda a, b: (0, a[1] // b[0]) if a[0] >= 0 and b[0] > 0 else None,
    "%": lambda a, b: (0, min(a[1], b[1] - 1)) if a[0] >= 0 and b[0] > 0 else None,
    "floor_div": lambda a, b: _corners(a, b, lambda x, y: x // y) if b[0] > 0 else None,
    "remainder": lambda a, b: (0, b[1] - 1) if b[0] > 0 else None,
    "&": lambda a, b: (0, min(x[1] for x in (a, b) if x[0] >= 0)) if max(a[0], b[0]) >= 0 else None,
    ">>": lambda a, b: _corners(a, b, lambda x, y: x >> y) if 0 <= b[0] and b[1] < 64 else None,
}


def number_text(value: float, type: str) -> str:
    """Returns a constant in C++, of the same bits as a float32."""
    if type == "bool":
        return "true" if value else "false"
    if type == "int":
        return "(-2147483647 - 1)" if value == -(2**31) else str(value)
    if type == "long long":
        return "(-9223372036854775807LL - 1)" if value == -(2**63) else f"{value}LL"
    single = _single(value)
    if math.isnan(single):
        return "nan()"
    if math.isinf(single):
        return "infinity()" if single > 0 else "-infinity()"
    rounded = (float(f"{single:.{digits}g}") for digits in range(1, 18))
    return f"{next(x for x in rounded if _single(x) == single)!r}f"


def _single(value: float) -> float:
    """Returns the nearest float32."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:  # of some versions of Python
        return math.copysign(math.inf, value)


def ordered(root: Node) -> Iterator[Node]:
    """Yields every node once, operands first. Without recursion, because loops of Python make deep graphs."""
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        x, is_ready = stack.pop()
        if is_ready:
            yield x
        elif id(x) not in seen:
            seen.add(id(x))
            stack.append((x, True))
            stack += [(a, False) for a in reversed(x.args)]


def _merged(root: Node) -> list[Node]:
    """Returns the nodes, operands first, of the same graph with each expression once."""
    known: dict[Any, Node] = {}
    instead: dict[int, Node] = {}
    for x in ordered(root):
        args = tuple([instead[id(a)] for a in x.args])
        value = x.value.key if x.op == "load" else repr(x.value)
        key = (x.op, x.type, value, *map(id, args))
        if key not in known:
            known[key] = x if args == x.args else Node(x.op, x.type, args, x.value)
        instead[id(x)] = known[key]
    return list(known.values())


def _is_hoistable(x: Node) -> bool:
    """Returns whether all keys of a row share the value."""
    return not x.reads & {"key", "score"}


class _Printer:
    """Prints one graph."""

    def __init__(self, root: Node, name_of: Callable[[Any], str]) -> None:
        self._nodes = _merged(root)
        self._name_of = name_of
        #: By id: the text of an expression, and its outermost operator if there is one.
        self._texts: dict[int, tuple[str, str]] = {}
        self._uses = dict.fromkeys(map(id, self._nodes), 0)
        #: By id: hoistable expressions that compilers may fail to hoist, or not see as the same in the loop.
        self._is_slow: dict[int, bool] = {}
        self._hoisted: set[int] = set()
        for x in reversed(self._nodes):
            for a in x.args:  # a cast is printed at each use, so its operand is used as often
                self._uses[id(a)] += self._uses[id(x)] if x.op == "cast" else 1
        for x in self._nodes:
            is_slow = x.op not in _QUICK
            self._is_slow[id(x)] = is_slow or any(self._is_slow[id(a)] for a in x.args)
            if not _is_hoistable(x):
                self._hoisted.update(id(a) for a in x.args if _is_hoistable(a) and self._is_slow[id(a)])

    def print(self) -> str:
        statements: list[str] = []
        # Hoistable statements come first. They need no others. The last node is the one to return.
        for x in sorted(self._nodes[:-1], key=lambda x: not _is_hoistable(x)):
            text, op = self._expression(x)
            if self._is_named(x, text):
                name = f"t{len(statements)}"
                statements.append(f"const auto {name} = {text};")
                text, op = name, ""
            self._texts[id(x)] = text, op
        return "\n".join((*statements, f"return {self._expression(self._nodes[-1])[0]};"))

    def _is_named(self, x: Node, text: str) -> bool:
        if x.op in _PLAIN:
            return False
        return self._uses[id(x)] > 1 or id(x) in self._hoisted or len(text) > _LONGEST

    def _expression(self, x: Node) -> tuple[str, str]:
        if x.op == "const":
            return number_text(x.value, x.type), ""
        if x.op in ("position", "score"):
            return x.value, ""
        if x.op in _BINDS and len(x.args) == 2:
            return self._infix(x), x.op
        if x.op in ("-", "!", "~"):
            text, op = self._texts[id(x.args[0])]
            return f"{x.op}({text})" if op or text.startswith("-") else x.op + text, ""
        texts = ", ".join(self._texts[id(a)][0] for a in x.args)
        if x.op == "cast":
            return f"static_cast<long long>({texts})" if x.type == "long long" else f"{x.type}({texts})", ""
        return f"{self._name_of(x.value) if x.op == 'load' else x.op}({texts})", ""

    def _infix(self, x: Node) -> str:
        operands = [self._texts[id(a)] for a in _without_casts(x.op, *x.args)]
        return f" {x.op} ".join(f"({text})" if _needs_brackets(x.op, op, at > 0) else text for at, (text, op) in enumerate(operands))


def _needs_brackets(op: str, inner: str, is_right: bool) -> bool:
    """Returns whether an operand has brackets: if C++ needs them, or compilers warn that readers do."""
    if not inner or (inner == op and op in _ASSOCIATIVE):
        return False
    if op in ("<<", ">>", "&", "^", "|") or {op, inner} <= _COMPARISONS or {op, inner} <= {"&&", "||"}:
        return True
    return _BINDS[inner] < _BINDS[op] or (_BINDS[inner] == _BINDS[op] and is_right)


def _without_casts(op: str, left: Node, right: Node) -> tuple[Node, Node]:
    """Returns the operands of an infix operator without the casts that C++ makes by itself."""
    if _is_implied(op, left, right):
        left = left.args[0]
    if _is_implied(op, right, left):
        right = right.args[0]
    return left, right


def _is_implied(op: str, x: Node, other: Node) -> bool:
    """Returns whether C++ converts as x does: to the type of the other operand, or a bool to int. Operands of shifts keep their types."""
    if x.op != "cast" or TYPES.index(x.args[0].type) > TYPES.index(x.type):
        return False
    return (x.type == other.type and op not in ("<<", ">>")) or (x.type == "int" and x.args[0].type == "bool")


def print_text(root: Node, name_of: Callable[[Any], str]) -> str:
    """Returns the body of a C++ function that returns the value of `root`. name_of: the name of what a load reads."""
    return _Printer(root, name_of).print()
