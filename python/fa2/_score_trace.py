"""Traces Python functions of scores, as FlexAttention takes them, into the texts of C++ that fa2's kernels take.

A function is called once, with values that record what it computes:

    mod(score, batch, head, query, key)   returns the new score
    mask(batch, head, query, key)         returns whether the query sees the key
    bias(batch, head, query, key)         returns what is added to the score

Scores are float32, positions int32; otherwise PyTorch's rules of types hold, but int8, int16 and uint8 are computed with as int32.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import _core
from ._score_functions import to_node
from ._score_printer import Node, constant, node, ordered, print_text
from ._score_torch import interception
from ._score_values import ARRAYS, Source, Table, Value, is_library, lift

__all__ = ["Capture", "Captures", "Sum", "Table", "Traced", "trace_bias", "trace_mask", "trace_mod", "trace_slope"]

_MOST_CAPTURES = 8
_POSITIONS = ("batch", "head", "query", "key")


@dataclass(frozen=True, eq=False)
class Capture:
    """A tensor that a text reads, as a function of `dims` indices."""

    name: str  #: in the text
    tensor: Any  #: as given: a tensor of PyTorch or an array
    dims: int
    dtype: str  #: float32, int64, ...


class Captures:
    """The tensors that the functions of one call read. The same elements in the same shape are one capture.

    prefix: what their names in texts begin with.
    """

    def __init__(self, prefix: str = "c") -> None:
        self._prefix = prefix
        self._known: dict[Any, Capture] = {}

    def __iter__(self) -> Iterator[Capture]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def add(self, source: Source) -> Capture:
        known = self._known.get(source.key)
        if known is None:
            known = Capture(f"{self._prefix}{len(self)}", source.tensor, len(source.tensor.shape), source.dtype)
            self._known[source.key] = known
        return known


@dataclass(frozen=True)
class Traced:
    """A function as a text of fa2/score_text.h."""

    text: str
    captures: tuple[Capture, ...]  #: that the text reads, by first use
    file: str  #: of the function, fit for ScoreText
    line: int
    uses_batch: bool
    uses_head: bool
    depends_on_score: bool
    as_sum: Sum | None = None  #: of a mod of the form score + f(positions), or -infinity
    softcap: float | None = None  #: cap, for a mod of the form cap * tanh(score / cap)


@dataclass(frozen=True)
class Sum:
    """A mod that only adds to scores, and hides some. These two texts compute the same in less time."""

    bias: Traced | None  #: what it adds; None: nothing
    mask: Traced | None  #: where the score does not become -infinity; None: everywhere


def trace_mod(function: Callable[..., Any], captures: Captures | None = None) -> Traced:
    """Returns the text of mod(score, batch, head, query, key), which returns the new score."""
    return _trace("score_mod", ("score", *_POSITIONS), "float", function, captures)


def trace_slope(function: Callable[..., Any], captures: Captures) -> Traced:
    """Returns the text of the derivative of a mod by the score, a function of the same arguments."""
    return _trace("mod_slope", ("score", *_POSITIONS), "float", function, captures)


def trace_mask(function: Callable[..., Any], captures: Captures | None = None) -> Traced:
    """Returns the text of mask(batch, head, query, key), which returns whether the query sees the key."""
    return _trace("mask_mod", _POSITIONS, "bool", function, captures)


def trace_bias(function: Callable[..., Any], captures: Captures | None = None) -> Traced:
    """Returns the text of bias(batch, head, query, key), which returns what is added to the score."""
    return _trace("bias", _POSITIONS, "float", function, captures)


def _trace(kind: str, names: tuple[str, ...], returns: str, function: Callable[..., Any], captures: Captures | None) -> Traced:
    captures = Captures() if captures is None else captures
    file, line = _origin(function)
    place = f"{file}:{line}"
    _check_parameters(kind, names, function, place)
    arguments = [_argument(name) for name in names]
    try:
        with interception():
            result = lift(function(*arguments))
    except (TypeError, IndexError) as error:
        if isinstance(error, _core.Error):
            raise
        raise _explained(error, kind, place) from error
    if not isinstance(result, (Value, bool, int, float)):
        do = "return what is computed of the arguments" if result is not None else "add a return"
        given = "None" if result is None else type(result).__name__
        raise _core.InvalidType(f"{place}: result of {kind} = {given}, must be one number: {do}")
    root = to_node(result, returns)
    traced = _printed(root, captures, file, line)
    if kind != "score_mod" or not traced.depends_on_score:
        return traced
    found = _added(root)
    parts = None if found is None else Sum(*(None if x is None else _printed(x, captures, file, line) for x in found))
    return Traced(**{**vars(traced), "as_sum": parts, "softcap": _softcap(root)})


def _argument(name: str) -> Value:
    if name == "score":
        return Value(node("score", "float", value=name))
    return Value(node("position", "int", value=f"at.{name}"))


def _origin(function: Any) -> tuple[str, int]:
    """Returns where the function stands, without characters that ScoreText refuses."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if code is None:
        return "score text", 1
    return re.sub(r"[\"'\\\r\n]", "_", code.co_filename), code.co_firstlineno


def _check_parameters(kind: str, names: tuple[str, ...], function: Any, place: str) -> None:
    if not callable(function):
        raise _core.InvalidType(f"{kind} = {type(function).__name__}, must be a function of ({', '.join(names)}): pass one")
    try:
        signature = inspect.signature(function)
    except ValueError:  # of functions in C
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        raise _core.InvalidType(f"{place}: {kind} = a function of {signature}, must take ({', '.join(names)}): {error}") from None


def _explained(error: Exception, kind: str, place: str) -> _core.InvalidRequest:
    """Returns the error for one of Python, PyTorch or numpy, about the line of the user's that it passed last."""
    at = error.__traceback__
    while at is not None:
        if not is_library(at.tb_frame):
            place = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
        at = at.tb_next
    if isinstance(error, IndexError) and "only integers, slices" in str(error):  # numpy's word for an index that refuses to be one
        return _core.InvalidType(f"{place}: index = a traced value, must index a tensor: {ARRAYS}")
    return _core.InvalidType(f"{place}: {kind} = raises {type(error).__name__}, must work for numbers without dimensions: {error}")


def _printed(root: Node, captures: Captures, file: str, line: int) -> Traced:
    used: dict[str, Capture] = {}

    def name_of(source: Source) -> str:
        capture = captures.add(source)
        used[capture.name] = capture
        return capture.name

    text = print_text(root, name_of)
    if len(captures) > _MOST_CAPTURES:
        raise _core.InvalidRequest(f"{file}:{line}: captured tensors = {len(captures)}, must be at most {_MOST_CAPTURES}: join some in one")
    reads = root.reads
    return Traced(text, tuple(used.values()), file, line, "batch" in reads, "head" in reads, "score" in reads)


#: What is added to the score, None for nothing; and where the score is not hidden, None for everywhere.
_Parts = tuple[Node | None, Node | None]


def _added(root: Node) -> _Parts | None:
    """Returns the parts of score + f(positions), or of masks in the old style: torch.where(visible, score + f, -inf).

    None: the root is of another form.
    """
    added: dict[int, _Parts] = {}  # by id, without recursion, because loops of Python make deep graphs
    for x in ordered(root):
        if x.op == "score":
            added[id(x)] = (None, None)
        elif x.op in ("+", "-") and len(x.args) == 2:
            score, term = x.args if x.op == "-" or id(x.args[0]) in added else reversed(x.args)
            if id(score) in added and "score" not in term.reads:
                total, visible = added[id(score)]
                more, shown = _split(term) if x.op == "+" else (term, None)
                added[id(x)] = (_with_term(total, x.op, more), _both(visible, shown))
        elif x.op == "select" and "score" in x.reads and "score" not in x.args[0].reads:
            parts = _selected(x.args[0], *(_HIDDEN if _is_hidden(side) else added.get(id(side)) for side in x.args[1:]))
            if parts is not None:
                added[id(x)] = parts
    return added.get(id(root))


_HIDDEN: _Parts = (None, constant(False, "bool"))


def _is_hidden(x: Node) -> bool:
    return x.op == "const" and x.value == -math.inf


def _selected(condition: Node, yes: _Parts | None, no: _Parts | None) -> _Parts | None:
    """Returns the parts of torch.where(condition, yes, no)."""
    if yes is None or no is None:
        return None
    zero, true = constant(0.0, "float"), constant(True, "bool")
    if no is _HIDDEN:
        return yes[0], _both(condition, yes[1])
    if yes is _HIDDEN:
        return _selected(node("!", "bool", condition), no, yes)
    sides = zip(yes, no, (zero, true), ("float", "bool"))
    term, visible = (node("select", type, condition, a or none, b or none) if a or b else None for a, b, none, type in sides)
    return term, visible


def _split(term: Node) -> _Parts:
    """Returns the parts of score + term."""
    if term.op == "select" and any(map(_is_hidden, term.args[1:])):
        sides: list[_Parts] = [_HIDDEN if _is_hidden(side) else (side, None) for side in term.args[1:]]
        return _selected(term.args[0], *sides) or (term, None)
    return term, None


def _both(a: Node | None, b: Node | None) -> Node | None:
    return a if b is None else b if a is None else node("&&", "bool", a, b)


def _with_term(total: Node | None, op: str, term: Node | None) -> Node | None:
    if term is None or term.op == "const" and term.value == 0:
        return total
    if total is not None:
        return node(op, "float", total, term)
    return term if op == "+" else node("-", "float", term)


def _softcap(x: Node) -> float | None:
    """Returns cap of cap * tanh(score / cap)."""
    if x.op != "*":
        return None
    cap, tanh = sorted(x.args, key=lambda a: a.op != "const")
    if cap.op != "const" or tanh.op != "tanh" or tanh.args[0].op not in ("/", "*"):
        return None
    score, factor = sorted(tanh.args[0].args, key=lambda a: a.op != "score") if tanh.args[0].op == "*" else tanh.args[0].args
    if score.op != "score" or factor.op != "const" or not cap.value:
        return None
    divided = factor.value if tanh.args[0].op == "/" else 1 / factor.value if factor.value else math.inf
    is_same = math.isclose(cap.value, divided, rel_tol=1e-6)  # 1 / cap is rounded
    return abs(cap.value) if is_same and math.isfinite(cap.value) else None
