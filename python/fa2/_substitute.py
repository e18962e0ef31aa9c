"""Makes subclasses of another library's classes whose methods call fa2's functions."""

from __future__ import annotations

import sys
import types
from typing import Any


def substitute(base: type, **names: Any) -> Any:
    """Returns a subclass of `base` whose methods see `names` in place of their module's own definitions.

    Functions of the module that the methods call see them too. Properties and decorated functions do not. The module and
    `base` stay unchanged for their other users. Later definitions of the module are not seen.
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
    """Returns the function with other globals. Both share the closure, which `super()` needs."""
    code, defaults = function.__code__, function.__defaults__
    moved = types.FunctionType(code, scope, function.__name__, defaults, function.__closure__)
    moved.__kwdefaults__ = function.__kwdefaults__
    moved.__qualname__, moved.__doc__, moved.__module__ = function.__qualname__, function.__doc__, function.__module__
    moved.__annotations__ = function.__annotations__
    moved.__dict__.update(function.__dict__)
    return moved


def descales(q: Any, k: Any, k_descale: Any, v_descale: Any, batch: int) -> dict[str, Any]:
    """Returns attention()'s factors of 8-bit keys and values: none for those of q's dtype, for which engines pass factors too.

    k_descale, v_descale: None, or float32 (batch, heads_kv), in which 1 stands for any batch and heads.
    """
    if k.dtype == q.dtype:
        return {}
    shape = batch, k.shape[-2]

    def whole(x: Any) -> Any:
        fits = x is not None and all(n in (1, wanted) for n, wanted in zip(x.shape, shape))
        return x.expand(shape) if fits else x

    return {"k_descale": whole(k_descale), "v_descale": whole(v_descale)}


def refuse(what: str, **arguments: Any) -> None:
    """Raises NotImplementedError if one of `arguments` is neither None nor False."""
    given = [name for name, value in arguments.items() if value is not None and value is not False]
    if given:
        raise NotImplementedError(f"{', '.join(given)} = given by {what}, must be None on fa2: choose another attention backend")
