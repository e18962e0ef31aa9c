"""Remembers the texts of functions, for as long as nothing that a function can see has changed.

A trace takes up to a millisecond. It depends on a function's code and on all that the code reads: numbers and other functions, and
of tensors the shapes alone. _Walk collects these, and gives up on whatever it does not know: then each call traces again.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

#: Modules whose functions and attributes stay the same.
_LIBRARIES = frozenset(("math", "operator", "torch"))
#: Functions of Python that depend on their arguments alone.
_BUILTINS = frozenset(
    "abs all any bool divmod enumerate float int isinstance len list map max min pow range reversed round slice sum tuple zip".split()
)
_MOST_TEXTS = 256
_texts: dict[Any, tuple[Any, dict[str, int]]] = {}


class _Unknown(Exception):
    """Something whose changes cannot be seen."""


@functools.lru_cache(maxsize=1024)
def _globals_of(code: CodeType) -> tuple[str, ...] | None:
    """Returns the global names that the code reads. None: it also imports, or writes to what others see."""
    names: dict[str, None] = {}
    for step in dis.get_instructions(code):
        if step.opname.startswith(("IMPORT_", "STORE_GLOBAL", "STORE_ATTR", "STORE_DEREF", "DELETE_")):
            return None
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names[step.argval] = None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found = _globals_of(inner)
            if found is None:
                return None
            names.update(dict.fromkeys(found))
    return tuple(names)


class _Walk:
    """Collects what functions can see."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self._places: dict[Any, int] = {}
        self._functions: dict[int, int] = {}
        torch = sys.modules.get("torch")
        self._plain: tuple[type, ...] = () if torch is None else (torch.Tensor, torch.nn.Parameter)
        self._constants: tuple[type, ...] = (str, bytes) if torch is None else (str, bytes, torch.dtype, torch.device)

    def key(self, x: Any) -> Any:
        """Returns what is equal for values with which a function is traced to the same text."""
        kind = type(x)
        if x is None or kind in (bool, int) or kind in self._constants:
            return kind, x
        if kind is float:
            return kind, repr(x)
        if kind in self._plain:
            return self._tensor(x)
        if kind is FunctionType:
            return self._function(x)
        if isinstance(x, tuple):
            if kind is tuple or kind.__module__ == "torch":
                return kind, *map(self.key, x)
        elif kind is functools.partial:
            return kind, self.key(x.func), *map(self.key, x.args), *((name, self.key(value)) for name, value in x.keywords.items())
        elif _is_of_library(x):
            return x
        raise _Unknown

    def _tensor(self, x: Any) -> Any:
        if (data := x.data_ptr()) == 0:
            raise _Unknown  # no memory tells it from others
        shape = tuple(x.shape)
        place = self._places.setdefault((data, shape, x.stride(), x.dtype), len(self.tensors))
        if place == len(self.tensors):
            self.tensors.append(x)
        return "tensor", place, shape, x.dtype, x.device, x.requires_grad

    def _function(self, x: FunctionType) -> Any:
        if x.__closure__ is None and (x.__module__ or "").partition(".")[0] in _LIBRARIES:
            return x
        if (known := self._functions.get(id(x))) is not None:
            return "function", known
        self._functions[id(x)] = len(self._functions)
        names = _globals_of(x.__code__)
        if names is None or x.__dict__:
            raise _Unknown
        try:
            cells = [cell.cell_contents for cell in x.__closure__ or ()]
        except ValueError:  # a cell without contents yet
            raise _Unknown from None
        more = (x.__kwdefaults__ or {}).items()
        seen = (*map(self.key, x.__defaults__ or ()), *((name, self.key(value)) for name, value in more), *map(self.key, cells))
        return x.__code__, seen, *self._values(names, x.__globals__)

    def _values(self, names: tuple[str, ...], scope: dict[str, Any]) -> Iterator[Any]:
        for name in names:
            if name in scope:
                yield name, self.key(scope[name])
            elif name not in _BUILTINS:
                raise _Unknown


def _is_of_library(x: Any) -> bool:
    """Returns whether x is a module of a library, one of its functions, or one of Python's types."""
    if isinstance(x, ModuleType):
        return x.__name__.partition(".")[0] in _LIBRARIES
    if isinstance(x, BuiltinFunctionType):
        owner = x.__self__
        return owner is None or isinstance(owner, (ModuleType, type))
    return isinstance(x, type) and x.__module__ == "builtins"


def is_of(library: str, x: Any, name: str) -> bool:
    """Returns whether x is the library's function of this name."""
    module = getattr(x, "__module__", None) or ""
    return module.partition(".")[0] == library and getattr(x, "__name__", "") == name


def remembered(functions: tuple[Any, ...], options: Any, make: Callable[[], tuple[Any, dict[str, Any], bool]]) -> tuple[Any, dict[str, Any]]:
    """Returns (texts, captures) of make(), or what it has returned before for the same functions, with their present tensors.

    functions: functions and None. options: what else the result depends on. make: returns the same two, and whether the result
    depends on elements of tensors.
    """
    walk = _Walk()
    key = None
    try:
        key = (options, *map(walk.key, functions))
        found = _texts.get(key)
    except (_Unknown, TypeError, RuntimeError):  # RuntimeError: of tensors without memory, and of endless recursion
        found = None
    if found is not None:
        texts, places = found
        return texts, {name: walk.tensors[place] for name, place in places.items()}
    texts, captures, depends = make()
    by_identity = {id(x): place for place, x in enumerate(walk.tensors)}
    if key is not None and not depends and all(id(x) in by_identity for x in captures.values()):
        if len(_texts) >= _MOST_TEXTS:
            _texts.clear()
        _texts[key] = texts, {name: by_identity[id(x)] for name, x in captures.items()}
    return texts, captures
