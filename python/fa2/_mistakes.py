"""Errors that list everything wrong with a call. Nothing here runs before a call has failed."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from . import _core, _hooks
from ._call import MASKS, TENSORS

#: What Python raises for arguments of wrong types, and InvalidRequest, which is a ValueError.
CAUGHT = (TypeError, ValueError, LookupError, AttributeError)

_Function = TypeVar("_Function", bound=Callable[..., Any])
_TENSORS = frozenset("q k v qkv kv k_cache v_cache out_parts lse_parts out_partial lse_partial x tensor".split())
_OPTIONAL_TENSORS = frozenset(TENSORS).union(
    """s_aux cu_seqlens cu_seqlens_new cu_seqlens_k_new block_table out cache_batch_idx cache_leftpad rotary_cos rotary_sin
    rotary_seqlens qv attn_sink descale_k""".split()
)
_FLAGS = frozenset(
    """return_lse return_max_logits return_attn_probs return_softmax_lse deterministic missing_pages batch_invariant autocast
    rotary_interleaved causal_positions backward every""".split()
)
#: Names that other libraries give to arguments of attention().
_SYNONYMS = {
    "is_causal": "causal",
    "scale": "softmax_scale",
    "scaling": "softmax_scale",
    "sm_scale": "softmax_scale",
    "dropout": "dropout_p",
    "sliding_window": "window_size",
    "window": "window_size",
    "chunk_size": "attention_chunk",
    "attention_chunk_size": "attention_chunk",
    "logits_soft_cap": "softcap",
    "s_aux": "sinks",
    "block_table": "page_table",
    "cache_seqlens": "seqused_k",
    "return_softmax_lse": "return_lse",
    "return_attn_probs": "return_lse",
}
_MASKS_INSTEAD = (
    "pass causal=True, window_size, attention_chunk or seqused_k, or the tensor itself as bias=: of bools, true where a query sees a key, or of numbers to add"
)
#: Arguments of other libraries that attention() has under no name, and what to do.
_ABSENT = {
    "attn_mask": _MASKS_INSTEAD,
    "attention_mask": _MASKS_INSTEAD,
    "attn_bias": "pass alibi_slopes, or the tensor itself as bias=",
    "block_mask": "pass its mask_mod as mask_mod=, or call fa2.flex_attention()",
    "enable_gqa": "leave it out, heads of k and v are grouped if they divide those of q",
}


def _is_integer(value: Any) -> bool:
    return hasattr(value, "__index__") and not hasattr(value, "shape")


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__") or (hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0)


def _is_mask(value: Any) -> bool:
    return isinstance(value, (bool, int, str)) and value in MASKS


def _is_window(value: Any) -> bool:
    try:
        left, right = (int(x) for x in value)
    except CAUGHT:
        return False
    return left >= -1 and right >= -1


def _is_length(value: Any) -> bool:
    return value is None or (_is_integer(value) and value >= 0)


#: By names: whether a value is right, and the rule.
_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(_FLAGS, (_is_number, "must be True or False")),
    "causal": (_is_mask, 'must be True, False, "bottom_right" or "top_left"'),
    "window_size": (_is_window, "must be (left, right), two numbers of keys, -1 for no bound: pass (128, 0) for 128 keys before a query"),
    "softmax_scale": (lambda x: x is None or (_is_number(x) and math.isfinite(x)), "must be a finite number, or None"),
    "softcap": (lambda x: _is_number(x) and 0 <= x < math.inf, "must be a finite number from 0 on: 0 for no cap"),
    "dropout_p": (lambda x: _is_number(x) and 0 <= x < 1, "must be a number from 0 to below 1"),
    **dict.fromkeys(("max_seqlen", "max_seqlen_q", "max_seqlen_k"), (_is_length, "must be an integer from 0 on, or None")),
    "attention_chunk": (lambda x: _is_integer(x) and x >= 0, "must be an integer from 0 on: 0 for no chunks"),
    "lse_base": (lambda x: x in ("natural", "two"), 'must be "natural" or "two"'),
    "sm_margin": (lambda x: _is_integer(x) and x >= 0, "must be an integer from 0 on, below the number of the GPU's SMs"),
    "layout": (lambda x: x in ("bshd", "bhsd"), 'must be "bshd" or "bhsd"'),
}


def _unknown(name: str, value: Any, known: Mapping[str, Any]) -> str:
    given = f"{name} = {_hooks.text_of(value)}"
    if name in _ABSENT:
        return f"{given}, must not be given: {_ABSENT[name]}"
    close = difflib.get_close_matches(name, known, 1)
    if (meant := _SYNONYMS.get(name) or (close[0] if close else None)) in known:
        return f"{given}, must have the name {meant}: pass {meant}=..."
    return f"{given}, must not be given: no argument has this name"


def _tensor(name: str, value: Any, arguments: Mapping[str, Any], optional: Collection[str]) -> str | None:
    if value is None and (name not in _TENSORS or name in optional):
        return None
    if (wrong := _hooks.complaint(value)) is not None:
        return f"{name} = {wrong}"
    first = next((x for x in arguments if x in _TENSORS and not _hooks.complaint(arguments[x])), name)
    torch = _hooks.torch_of(arguments[first])
    if (torch is None) == (_hooks.torch_of(value) is None):
        return None
    kind, do = ("a numpy array", f"{name}.numpy()") if torch is None else ("a PyTorch tensor", f"torch.from_numpy({name})")
    return f"{name} = {type(value).__module__}.{type(value).__qualname__}, must be {kind}, as {first}: pass {do}"


def find(arguments: Mapping[str, Any], optional: Collection[str] = ()) -> tuple[dict[str, str], bool]:
    """Returns the mistakes that need no library to be seen, by names, and whether a type is among them.

    optional: names of tensors that may be None.
    """
    found: dict[str, str] = {}
    is_type = False
    for name, value in arguments.items():
        if name in _TENSORS or name in _OPTIONAL_TENSORS:
            line = _tensor(name, value, arguments, optional)
            is_type = is_type or line is not None
        elif name in _VALUES and not _VALUES[name][0](value):
            line = f"{name} = {_hooks.text_of(value)}, {_VALUES[name][1]}"
            is_type = is_type or not isinstance(value, (int, float, str, tuple))
        else:
            line = None
        if line is not None:
            found[name] = line
    return found, is_type


def invalid_request(broken: list[str], hints: Collection[str] = (), kind: type[_core.InvalidRequest] = _core.InvalidRequest) -> _core.InvalidRequest:
    """Returns the error that lists broken rules, then hints."""
    count = f"{len(broken)} rule{'s' if len(broken) > 1 else ''} broken"
    return kind("\n  ".join((f"invalid request, {count}:", *broken, *hints)))


def _lines_of(text: str) -> list[str]:
    return text.split("\n  ")[1:] or [text]


def _named(text: str, arguments: Mapping[str, Any]) -> list[str]:
    """Returns the library's mistakes, with names that only Python knows: of tensors, devices and dtypes.

    Leaves out mistakes about an output that the call has made itself, because the list already names their cause.
    """
    for name, value in arguments.items():
        if text == f"tensor = {_hooks.complaint(value)}":
            return [name + text.removeprefix("tensor")]
    lines = []
    for line in _lines_of(text):
        name, dot, rest = line.partition(".")
        value = arguments.get(name)
        if value is None and (value := arguments.get(f"{name}_cache")) is not None:
            line = f"{name}_cache{line.removeprefix(name)}"
        if value is None and dot and name.isidentifier():
            continue
        for attribute, vague in (("device", "neither CUDA nor the CPU"), ("dtype", "another one")):
            if dot and rest.startswith(f"{attribute} = {vague}"):
                line = line.replace(vague, str(getattr(value, attribute)))
        lines.append(line)
    return lines


def _hints(text: str, arguments: Mapping[str, Any]) -> list[str]:
    """Returns advice on mistakes that the library has found."""
    hints = []
    if "must be a multiple of 8" in text and "head_dim" in text:
        hints.append("head_dim: fa2.pad_head_dim() fills up q, k and v with zeros")
    if "must be a multiple of 16 with kv_type" in text:
        hints.append("head_dim: fa2.pad_head_dim(x, 16) fills up q, k and v with zeros")
    if "must be null, or the problem's kv_type" in text:
        hints.append("k_descale, v_descale: leave them out, or pass k and v as float8_e4m3fn, whose factors they are")
    if arguments.get("qv") is not None and re.search(r"^ *head_dim(_v)? = ", text, re.MULTILINE):
        hints.append("head_dim: with qv it is that of q and of v together")
    hints += _hints_of_8_bits(text, arguments)
    if "dtype = float32" in text and "autocast" in arguments:
        hints.append("float32 tensors: cast them, or pass autocast=True under torch.autocast")
    if arguments.get("layout") == "bshd" and _looks_transposed(arguments):
        hints.append('q, k and v look like (batch, heads, seqlen, head_dim): pass layout="bhsd"')
    return hints


def _hints_of_8_bits(text: str, arguments: Mapping[str, Any]) -> list[str]:
    """Returns advice on element types of 8 bits in places where the library takes none, or another."""
    hints = []
    if "q.dtype = float8_e4m3fn" in text:
        hints.append("q: 8 bits are for k and v alone: pass q as float16 or bfloat16")
    tensors = [arguments[name] for name in ("k", "v", "k_cache", "v_cache") if arguments.get(name) is not None]
    kinds = {str(getattr(x, "dtype", "")).removeprefix("torch.") for x in tensors}
    if "uint8" in kinds:
        library = "torch" if _hooks.torch_of(tensors[0]) is not None else "ml_dtypes"
        hints.append(f"uint8: view bytes of float8_e4m3fn as that dtype: pass x.view({library}.float8_e4m3fn)")
    for kind in sorted(kinds):
        if kind.startswith("float8") and kind != "float8_e4m3fn":
            hints.append(f"{kind}: its bytes mean other numbers than those of float8_e4m3fn: convert them, do not view them")
    return hints


def _looks_transposed(arguments: Mapping[str, Any]) -> bool:
    """Returns whether the shapes fit (batch, heads, seqlen, head_dim), and not (batch, seqlen, heads, head_dim)."""
    q, k, v = (tuple(getattr(arguments[name], "shape", ())) for name in "qkv")
    if not (len(q) == len(k) == len(v) == 4 and q[0] == k[0] == v[0]):
        return False
    fits, fits_swapped = (k[1:3] == v[1:3] and k[at] > 0 and q[at] % k[at] == 0 for at in (2, 1))
    return fits_swapped and not fits


def error_of(
    cause: BaseException,
    arguments: Mapping[str, Any],
    unknown: Mapping[str, Any] | None = None,
    check: Callable[[dict[str, str]], object] | None = None,
    optional: Collection[str] = (),
) -> BaseException:
    """Returns the error to raise instead of `cause`: one with all mistakes of the arguments, or `cause` if there are
    none.

    check: binds the tensors without a launch, which raises what the library finds; called with the mistakes by names.
    """
    found, is_type = find(arguments, optional)
    lines = [*(_unknown(name, value, arguments) for name, value in (unknown or {}).items()), *found.values()]
    is_type = is_type or bool(unknown)
    more: BaseException | None = None if lines else cause
    if lines and check is not None:
        try:
            check(found)
        except CAUGHT as error:
            more = error
    hints: list[str] = []
    if isinstance(more, _core.InvalidRequest):
        text = str(more)
        lines += [line for line in _named(text, arguments) if re.split(r"[. ]", line)[0] not in found]
        hints = _hints(text, arguments)
        is_type = is_type or isinstance(more, _core.InvalidType)
    if not hints and (not lines or lines == _lines_of(str(cause))):
        return cause
    return invalid_request(lines, hints, _core.InvalidType if is_type else _core.InvalidRequest)


def explained(function: _Function) -> _Function:
    """Returns a function that raises error_of() any exception of `function`."""
    signature = inspect.signature(function)
    optional = [name for name, parameter in signature.parameters.items() if parameter.default is None]

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except CAUGHT as error:
            unknown = {name: value for name, value in keywords.items() if name not in signature.parameters}
            try:
                bound = signature.bind(*args, **{name: value for name, value in keywords.items() if name not in unknown})
            except TypeError:
                raise error from None
            bound.apply_defaults()
            better = error_of(error, bound.arguments, unknown, optional=optional)
            if better is error:
                raise
            raise better from None

    return call  # type: ignore[return-value]
