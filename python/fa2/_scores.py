"""What a call makes of score_mod, mask_mod and bias: the number of texts, and the tensors and numbers that these capture."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import _core, _hooks, _score_tensors
from ._block_maps import HeldMask
from ._call import ALIBI_SLOPES, SOFTCAP, Options, replaced
from ._score_memo import remembered
from ._score_numbers import PER_SCORE, Text, Texts, names_per_score, number_of, words_of_scores
from ._score_tiles import with_tiles_of
from ._score_torch import eager_calls
from ._score_trace import Captures, Table, Traced, trace_bias, trace_mask, trace_mod, trace_slope

#: Element types of captures, as fa2/c_score_text.h numbers them.
_DTYPES = {**{name: code for name, code in _hooks.DTYPES.items() if not name.startswith("float8")}, "bool": 7}
#: What kernels have no type for, and what the call makes of it.
_WIDENED = {"int8": "int32", "int16": "int32"}
_MOST_DIMENSIONS = 4
_NUMBER = -1  # dimensions of a capture that is no tensor
_LARGEST_EXACT = 2**53  # fa2_capture.number is a double


@dataclass(frozen=True, eq=False)
class ScoreText:
    """A function of scores as the body of a C++ function: docs/scores.md has what it may contain.

    text: for score_mod it sees `score` and `at`, for mask_mod and bias only `at`. It returns.
    captures: the tensors and numbers that it calls by name, with an index per dimension: table(at.head, at.key), gain(). A tensor
    with an element per score, (batch or 1, heads or 1, queries, keys), may be called as pair(at), for which its keys must be
    contiguous, and its address and other strides multiples of 16 bytes.
    file, line: where the text begins, which compilers name in their messages.
    mod_slope: of a score_mod, the body of a function of the same score, a float, that returns the derivative of the new score by
    it. None: gradients derive it from the text. check_score_text() compares both.
    mask_block: of a mask_mod, (queries, keys) of the blocks in each of which it answers the same for all pairs of a head, counted
    from 0. Maps of such masks are made faster, and kernels have tiles that divide the blocks. check_score_text() looks into blocks.
    """

    text: str
    captures: Mapping[str, Any] = field(default_factory=dict)
    file: str = "score text"
    line: int = 1
    mod_slope: str | None = None
    mask_block: tuple[int, int] = (1, 1)


class _Function(NamedTuple):
    """An argument that is a text or has become one."""

    text: Text
    captures: dict[str, Any]
    traced: Traced | None = None
    slope: Text = None
    block: tuple[int, int] = (1, 1)


def _read(name: str, given: Any, captures: Captures) -> _Function:
    if given is None:
        return _Function(None, {})
    if isinstance(given, ScoreText):
        if not isinstance(given.text, str) or not isinstance(given.captures, Mapping):
            raise _core.InvalidType(f"{name} = ScoreText of {_hooks.text_of(given.text)}, must have a str and a dict of captures")
        text = given.text, given.file, given.line
        return _Function(text, dict(given.captures), slope=_slope_of(name, given), block=_block_of(name, given.mask_block))
    if not callable(given):
        do = "pass a function, or fa2.ScoreText(...) of C++"
        if hasattr(given, "mask_mod"):
            do = "pass its mask_mod, or call fa2.flex_attention()"
        elif hasattr(given, "shape"):
            do = "pass a function that indexes the tensor, such as lambda b, h, q, k: tensor[b, h, q, k], or the tensor as bias"
        kinds = "a function, a ScoreText or a tensor" if name == "bias" else "a function or a ScoreText"
        raise _core.InvalidType(f"{name} = {_hooks.text_of(given)}, must be {kinds}: {do}")
    return _of_trace(_TRACES[name](given, captures))


def _slope_of(name: str, given: ScoreText) -> Text:
    slope = given.mod_slope
    if slope is None:
        return None
    if name != "score_mod":
        raise _core.InvalidRequest(f"{name}.mod_slope = {_hooks.text_of(slope)}, must be None: only a score_mod has a slope")
    if not isinstance(slope, str):
        raise _core.InvalidType(f"{name}.mod_slope = {_hooks.text_of(slope)}, must be a str or None")
    return slope, f"{given.file} (mod_slope)", 1


def _block_of(name: str, block: Any) -> tuple[int, int]:
    if not isinstance(block, (tuple, list)) or [type(x) for x in block] != [int, int]:
        raise _core.InvalidType(f"{name}.mask_block = {_hooks.text_of(block)}, must be a tuple of two ints: queries and keys")
    if name != "mask_mod" and tuple(block) != (1, 1):
        raise _core.InvalidRequest(f"{name}.mask_block = {tuple(block)}, must be (1, 1): only a mask_mod has blocks")
    return block[0], block[1]


def _of_trace(traced: Traced) -> _Function:
    return _Function((traced.text, traced.file, traced.line), {c.name: c.tensor for c in traced.captures}, traced)


_TRACES = {"score_mod": trace_mod, "mask_mod": trace_mask, "bias": trace_bias}


def _read_all(score_mod: Any, mask_mod: Any, bias: Any, may_cap: bool, is_biased: bool) -> tuple[Texts, dict[str, Any]]:
    """Returns the texts of the arguments, and their tensors and numbers by names.

    may_cap: whether a softcap can come before everything else of the call. is_biased: whether a tensor takes the place of the bias.
    """
    captures = Captures()
    added, mod, mask = (_read(*x, captures) for x in (("bias", bias), ("score_mod", score_mod), ("mask_mod", mask_mod)))
    softcap = None
    has_bias = is_biased or added.text is not None
    if mod.traced is not None and mod.traced.softcap is not None and may_cap and not has_bias:
        softcap, mod = mod.traced.softcap, _Function(None, {})
    elif mod.traced is not None and mod.traced.as_sum is not None:
        # What only adds and hides is faster as a bias and a mask, if these places are free.
        parts = mod.traced.as_sum
        fits = (parts.bias is None or not has_bias) and (parts.mask is None or mask.text is None)
        if fits:
            mod = _Function(None, {})
            added = added if parts.bias is None else _of_trace(parts.bias)
            mask = mask if parts.mask is None else _of_trace(parts.mask)
    return Texts(softcap, added.text, mod.text, mod.slope, mask.text, mask.block), _joined((added, mod, mask))


def read(score_mod: Any, mask_mod: Any, bias: Any, may_cap: bool, is_biased: bool = False) -> tuple[Texts, dict[str, Any]]:
    """Returns _read_all(), from memory if functions and all that they see are as before."""
    arguments = (score_mod, mask_mod, bias)
    if all(x is None for x in arguments):
        return Texts(None, None, None, None, None), {}
    if any(isinstance(x, ScoreText) for x in arguments):
        return _read_all(*arguments, may_cap, is_biased)

    def make() -> tuple[Texts, dict[str, Any], bool]:
        before = eager_calls()
        return *_read_all(*arguments, may_cap, is_biased), eager_calls() != before

    return remembered(arguments, (may_cap, is_biased), make)


def score_text(*, score_mod: Any = None, mask_mod: Any = None, bias: Any = None, mod_slope: Any = None, mask_block: tuple[int, int] = (1, 1)) -> ScoreText:
    """Returns the text of one function, which takes its place as an argument.

    fa2 calls functions before each attention, where torch.compile must break the graph. Texts need no such call. The text
    stays as it is when numbers or names that the function sees change.

    mod_slope: a function of score_mod's arguments that returns its derivative by the score, for gradients.
    mask_block: see ScoreText.
    """
    given = {"score_mod": score_mod, "mask_mod": mask_mod, "bias": bias}
    functions = {name: x for name, x in given.items() if x is not None}
    if len(functions) != 1 or any(isinstance(x, ScoreText) for x in functions.values()):
        raise _core.InvalidRequest(f"score_text() = of {', '.join(functions) or 'nothing'}, must be of one function: call it for each")
    ((name, function),) = functions.items()
    if mod_slope is not None and name != "score_mod":
        raise _core.InvalidRequest(f"mod_slope = {_hooks.text_of(mod_slope)}, must be None: only a score_mod has a slope")
    block = _block_of(name, mask_block)
    known = Captures(f"{name[0]}_")
    read = _read(name, function, known)
    assert read.text is not None
    text, file, line = read.text
    slope = None if mod_slope is None else trace_slope(mod_slope, known)
    captures = read.captures if slope is None else _joined((read, _of_trace(slope)))
    return ScoreText(text, captures, file, line, None if slope is None else slope.text, block)


def check_score_text(
    *, score_mod: Any = None, mask_mod: Any = None, bias: Any = None, batch: int = 1, heads_q: int = 1, seqlen_q: int, seqlen_k: int
) -> None:
    """Compiles functions, texts or a bias tensor for the host. Compares mod_slope, if given, with score_mod's derivative, and looks into mask_block.

    Scores are random, and so are positions below batch, heads_q, seqlen_q and seqlen_k. Captured tensors of a GPU are copied. Needs
    no GPU, and a C++ compiler as the interpreter does. Raises InvalidRequest with a score and its position if mod_slope differs by
    more than 1e-4, relative above 1, or with two positions if a mask differs inside a block; CompileError if a text does not compile; Unavailable without a compiler.
    """
    sizes = batch, heads_q, seqlen_q, seqlen_k
    bias, tensor = _read_tensor(bias, sizes, None)
    texts, captures = read(score_mod, mask_mod, bias, False, tensor is not None)
    if tensor is not None:
        texts, captures = _with_tensor(texts, captures, tensor)
    if texts.are_empty:
        raise _core.InvalidRequest("check_score_text() = of nothing, must be of a function that changes or hides scores")
    per_score = names_per_score(texts)
    pairs = [_bound(name, _on_host(name, value), None, name in per_score) for name, value in captures.items()]
    number = number_of(texts, tuple(spec for spec, _ in pairs))
    problem = dict(zip(("batch", "heads_q", "seqlen_q", "seqlen_k"), sizes), score_text=number)
    _core.check_score_text(problem, tuple(value for _, value in pairs))


def _read_tensor(bias: Any, sizes: _score_tensors.Sizes | None, device: Any) -> tuple[Any, _score_tensors.TensorText | None]:
    """Returns the function or text that a bias is, and the text of the tensor that it is."""
    return (None, _score_tensors.read(bias, sizes, device)) if _score_tensors.is_tensor(bias) else (bias, None)


def _with_tensor(texts: Texts, captures: dict[str, Any], tensor: _score_tensors.TensorText) -> tuple[Texts, dict[str, Any]]:
    all_captures = {**captures, tensor.name: tensor.tensor}
    if tensor.is_mask:
        return Texts(texts.softcap, texts.bias, texts.mod, texts.mod_slope, tensor.beside(texts.mask)), all_captures
    return Texts(texts.softcap, tensor.beside(None), texts.mod, texts.mod_slope, texts.mask, texts.mask_block), all_captures


def _on_host(name: str, value: Any) -> Any:
    if getattr(value, "is_cuda", False):
        return value.cpu()
    if _hooks.torch_of(value) is not None and value.device.type != "cpu":
        raise _core.InvalidRequest(f"captures.{name}.device = {value.device}, must be cpu: move it there")
    return value


def _joined(functions: Iterable[_Function]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for function in functions:
        for name, value in function.captures.items():
            if name in found and found[name] is not value and not _are_same(found[name], value):
                raise _core.InvalidRequest(f"captures.{name} = two values, must be one: give them two names in the texts")
            found[name] = value
    return found


def _are_same(a: Any, b: Any) -> bool:
    numbers = (bool, int, float)
    return isinstance(a, numbers) and type(a) is type(b) and a == b


def _bound(name: str, value: Any, q: Any, is_per_score: bool) -> tuple[tuple[str, int, int], Any]:
    """Returns the capture's (name, dtype, dimensions), and its tensor or number as the call takes it.

    is_per_score: whether texts read it as name(at).
    """
    numpy = sys.modules.get("numpy")
    if isinstance(value, Table):
        value = value.array
    if numpy is not None and isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return (name, _DTYPES[_type_of_number(name, value)], _NUMBER), value
    if (wrong := _hooks.complaint(value)) is not None:
        raise _core.InvalidType(f"captures.{name} = {wrong}")
    torch = _hooks.torch_of(value)
    dtype = _name_of(value.dtype)
    if dtype in _WIDENED:
        dtype = _WIDENED[dtype]
        value = value.astype(dtype) if torch is None else value.to(getattr(torch, dtype))
    if dtype not in _DTYPES:
        do = "cast it, with x.float() or x.astype('float32')"
        raise _core.InvalidType(f"captures.{name}.dtype = {dtype}, must be {', '.join((*_DTYPES, *_WIDENED))}: {do}")
    if value.ndim > _MOST_DIMENSIONS:
        raise _core.InvalidRequest(f"captures.{name}.shape = {tuple(value.shape)}, must have at most {_MOST_DIMENSIONS} dimensions: flatten some")
    if torch is not None and value.ndim == 0 and value.device.type == "cpu" and getattr(q, "is_cuda", False):
        if value.requires_grad and torch.is_grad_enabled():
            raise _core.InvalidRequest(f"captures.{name}.device = cpu, must be {q.device}, as q's: it requires gradients")
        return _bound(name, value.item(), q, is_per_score)  # as PyTorch's operators take them
    if is_per_score:
        missing = _MOST_DIMENSIONS - value.ndim
        return (name, _DTYPES[dtype], PER_SCORE), value[(None,) * missing] if missing else value
    return (name, _DTYPES[dtype], value.ndim), value


def require_gradients(options: Any) -> None:
    """Raises if a capture of a mask alone requires gradients: it has none. `options`: a tuple like Options."""
    given = Options(*options)
    if given.score_text is None:
        return
    specs, in_scores = _hooks.capture_specs.get(given.score_text, ()), words_of_scores(given.score_text)
    for (name, *_), x in zip(specs, given.captures or ()):
        if getattr(x, "requires_grad", False) and name not in in_scores:
            why = "of a mask's capture, which has no gradient: pass its detach()"
            raise _core.InvalidRequest(f"captures.{name}.requires_grad = True, with shape {tuple(x.shape)}, must be False {why}")


def as_tensors(captures: Iterable[Any]) -> list[Any]:
    """Returns captures as torch.ops.fa2 takes them: numbers are tensors of the CPU without dimensions."""
    torch = sys.modules["torch"]
    kinds = {bool: torch.bool, int: torch.int64, float: torch.float64}
    return [torch.tensor(x, dtype=kinds[type(x)], device="cpu") if isinstance(x, (bool, int, float)) else x for x in captures]


def with_numbers(options: Options) -> Options:
    """Undoes as_tensors(), and compares captures with what make_score_text() was told of them."""
    if options.score_text is None:
        return options
    specs, captures = _hooks.capture_specs.get(options.score_text), tuple(options.captures or ())
    if specs is None or len(specs) != len(captures):
        return options._replace(captures=captures)  # which the library refuses
    found = []
    for (name, dtype, dimensions), x in zip(specs, captures):
        expected = dtype, _MOST_DIMENSIONS if dimensions == PER_SCORE else dimensions
        if dimensions != _NUMBER and (_DTYPES.get(_name_of(x.dtype)), x.ndim) != expected:
            raise _core.InvalidType(f"captures.{name}.dtype = {x.dtype}, with {x.ndim} dimensions, must be of its ScoreText: make another text")
        found.append(x.item() if dimensions == _NUMBER else x)
    return options._replace(captures=tuple(found))


def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _type_of_number(name: str, value: float) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return "float32"
    if abs(value) > _LARGEST_EXACT:
        raise _core.InvalidRequest(f"captures.{name} = {value}, must be at most 2^53 in magnitude: capture a tensor of int64")
    return "int32" if -(2**31) <= value < 2**31 else "int64"


_Reader = Callable[[Any, Any, Any, bool, bool], tuple[Texts, dict[str, Any]]]


def _reader(arguments: Iterable[Any]) -> _Reader:
    """Returns read(), or while PyTorch compiles a call with functions what it does not trace."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.compiler.is_compiling() or all(x is None or isinstance(x, ScoreText) for x in arguments):
        return read
    from . import _score_break

    outside: _Reader = _score_break.read
    return outside


def with_texts(
    options: tuple[Any, ...], q: Any, score_mod: Any, mask_mod: Any, bias: Any, sizes: _score_tensors.Sizes | None = None
) -> Options:
    """Returns the options with what attention()'s three arguments say. mask_mod may be a HeldMask.

    sizes: of scores, if the bias is a tensor or the mask is held; None: unknown.
    """
    bias, tensor = _read_tensor(bias, sizes, None if _hooks.torch_of(q) is None else q.device)
    held = mask_mod if isinstance(mask_mod, HeldMask) else None
    mask_mod = mask_mod if held is None else held.mask_mod
    may_cap = options[SOFTCAP] == 0 and options[ALIBI_SLOPES] is None
    texts, captures = _reader((score_mod, mask_mod, bias))(score_mod, mask_mod, bias, may_cap, tensor is not None and not tensor.is_mask)
    if tensor is not None:
        texts, captures = _with_tensor(texts, captures, tensor)
    if texts.softcap is not None:
        options = replaced(options, softcap=texts.softcap)
    if texts.are_empty:
        return Options(*options)
    per_score = names_per_score(texts)
    pairs = [_bound(name, value, q, name in per_score) for name, value in captures.items()]
    specs = tuple(spec for spec, _ in pairs)
    number = number_of(texts, specs)
    made = replaced(options, score_text=number, captures=tuple(value for _, value in pairs))
    if held is not None and texts.mask is not None:
        # A map is of the text that runs.
        made = made if sizes is None else with_tiles_of(made, sizes)
        # Of a tensor that the call widens, what tells changes is the original.
        originals = [x if spec[2] == _NUMBER else captures[spec[0]] for spec, x in pairs if re.search(rf"\b{spec[0]}\b", texts.mask[0])]
        assert made.score_text is not None
        made = made._replace(block_map=held.find(made.score_text, originals, q))
    return made
