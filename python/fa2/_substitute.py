"""Classes of another library whose methods call fa2's functions in the place of that library's own."""

from __future__ import annotations

import sys
import types
from typing import Any


def substitute(base: type, **names: Any) -> Any:
    """A subclass of `base` whose methods find `names` where their module has others.

    So do the module's functions, which those methods call. Properties and decorated functions do not. The module and `base`
    stay as they are: whoever else uses them sees no difference. What the module defines after this call is not seen.
    """
    module = vars(sys.modules[base.__module__])
    scope: dict[str, Any] = {**module, **names}
    for name, value in module.items():
        if isinstance(value, types.FunctionType) and value.__globals__ is module and name not in names:
            scope[name] = _move(value, scope)
    members: dict[str, Any] = {"__doc__": base.__doc__, "__module__": __name__}
    for name, member in vars(base).items():
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if isinstance(function, types.FunctionType) and function.__globals__ is module:
            moved = _move(function, scope)
            members[name] = moved if function is member else type(member)(moved)
    return type(base)(base.__name__, (base,), members)


def _move(function: types.FunctionType, scope: dict[str, Any]) -> types.FunctionType:
    """The same function with other globals; its closure, so `super()` too, is shared."""
    code, defaults = function.__code__, function.__defaults__
    moved = types.FunctionType(code, scope, function.__name__, defaults, function.__closure__)
    moved.__kwdefaults__ = function.__kwdefaults__
    moved.__qualname__, moved.__doc__, moved.__module__ = function.__qualname__, function.__doc__, function.__module__
    moved.__annotations__ = function.__annotations__
    moved.__dict__.update(function.__dict__)
    return moved


def refuse(what: str, **arguments: Any) -> None:
    """Raises NotImplementedError if one of `arguments` is neither None nor False."""
    given = [name for name, value in arguments.items() if value is not None and value is not False]
    if given:
        raise NotImplementedError(f"fa2 has no {', '.join(given)}, which {what} asks for: choose another attention backend")
