"""Attention of PyTorch's tensors: launched directly for plain eager calls, else by torch.ops.fa2."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from . import _core, _hooks, _score_tiles, _scores, _torch_ops
from ._call import BLOCK_MAP, CAPTURES, DIFFERENTIABLE_INDICES, DROPOUT_P, MAX_LOGITS, SINKS, Options, replaced
from ._torch_run import capture_gradients, no_gradients, run_backward, run_forward

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_count_modes = torch._C._len_torch_dispatch_stack
_peek_transforms = torch._C._functorch.peek_interpreter_stack


class _Attention(torch.autograd.Function):
    """Computes eager gradients without the cost of the dispatcher. lse is an output if return_lse. differentiable: the options
    that are, and captured tensors."""

    @staticmethod
    def forward(
        ctx: Any, return_lse: bool, deterministic: bool, options: Any, q: Any, k: Any, v: Any, *differentiable: Any
    ) -> Any:
        ctx.set_materialize_grads(False)
        out, lse = run_forward(q, k, v, None, True, options)
        ctx.save_for_backward(q, k, v, out, lse, *_captured(options))
        ctx.deterministic = deterministic
        ctx.options = options
        return (out, lse) if return_lse else out

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, d_out: Any, d_lse: Any = None) -> Any:
        q, k, v, out, lse, *_ = ctx.saved_tensors  # which raises if a capture has changed
        wanted = ctx.needs_input_grad[3:]
        options = Options._make(ctx.options)
        wants_captured = iter(wanted[_OPERANDS:])
        captures = options.captures or ()
        d_captures = capture_gradients(captures, [isinstance(x, torch.Tensor) and next(wants_captured) for x in captures])
        made = run_backward(d_out, d_lse, q, k, v, out, lse, wanted, ctx.deterministic, options, None, d_captures)
        return (None, None, None, *made, *_of_captured(captures, d_captures))


#: q, k, v, and the options that have gradients.
_OPERANDS = 3 + len(DIFFERENTIABLE_INDICES)


def _captured(options: Any) -> list[Any]:
    """Returns the tensors among the options' captures."""
    return [x for x in options[CAPTURES] or () if isinstance(x, torch.Tensor)]


def _of_captured(captures: Any, d_captures: Any) -> list[Any]:
    """Returns a gradient per tensor among the captures, of its dtype; None where there is none."""
    pairs = zip(captures, d_captures or (None,) * len(captures))
    return [None if gradient is None else gradient.to(x.dtype) for x, gradient in pairs if isinstance(x, torch.Tensor)]


#: _Attention.apply() without its search for transforms: callers have made sure that there are none.
_apply: Any = super(torch.autograd.Function, _Attention).apply


def is_plain(q: Any, k: Any, v: Any) -> bool:
    """Returns whether these are ordinary tensors outside of all modes and transforms."""
    return (
        not q.is_meta
        and type(q) in _PLAIN
        and type(k) in _PLAIN
        and type(v) in _PLAIN
        and _count_modes() == 0
        and _peek_transforms() is None
        and forward_ad._current_level < 0
    )


def draw_dropout(q: torch.Tensor) -> tuple[int, int, torch.Tensor | None]:
    """Draws from the generator of q's device: (seed, offset, None), or (0, 0, tensor) if a graph has to draw at each replay."""
    if q.is_cuda and not torch.compiler.is_compiling() and not torch.cuda.is_current_stream_capturing():
        generator = torch.cuda.default_generators[q.get_device()]
        offset = generator.get_offset()
        generator.set_offset(offset + 4)  # offsets are multiples of 4
        return generator.initial_seed() & (2**63 - 1), offset, None
    return 0, 0, torch.randint(2**62, (2,), dtype=torch.int64, device=q.device)


def prepared(q: Any, options: Options) -> Options:
    """Returns the options with sinks in float32, and with a mask for dropout."""
    options = _with_float_sinks(options)
    if options.dropout_p and options.dropout_state is None:
        seed, offset, state = draw_dropout(q)
        options = options._replace(dropout_seed=seed, dropout_offset=offset, dropout_state=state)
    return options


def _with_float_sinks(options: Options) -> Options:
    return options if options.sinks is None else options._replace(sinks=options.sinks.float())


def attend(
    q: Any, k: Any, v: Any, out: Any, return_lse: bool, deterministic: bool, autocast: bool, options: Any
) -> Any:
    """Returns what attention() does. `options`: a tuple like Options."""
    if autocast and torch.is_autocast_enabled(q.device.type):
        dtype = torch.get_autocast_dtype(q.device.type)
        q, k, v = (x.to(dtype) if x.dtype == torch.float32 else x for x in (q, k, v))
    if options[DROPOUT_P] or options[SINKS] is not None:
        options = prepared(q, Options(*options))
    compiling = torch.compiler.is_compiling()
    is_direct = not compiling and is_plain(q, k, v)
    if is_direct and options[CAPTURES]:
        options = _score_tiles.with_tiles(options, q, k)
    differentiable = [q, k, v, *[options[index] for index in DIFFERENTIABLE_INDICES]]
    if options[CAPTURES]:
        differentiable += _captured(options)
    differentiates = torch.is_grad_enabled() and any([x is not None and x.requires_grad for x in differentiable])
    if differentiates:
        require_gradients(q, k, v, options)
        _scores.require_gradients(options)
    if out is not None and (differentiates or compiling):
        raise _core.InvalidRequest(
            "out = given, must be None with gradients and under torch.compile: leave out= away and use the returned tensor"
        )
    if not is_direct:
        if options[MAX_LOGITS] is not None:
            raise _core.InvalidRequest(
                "max_logits = given, must be None under torch.compile, of subclasses and under modes and transforms: "
                "leave out return_max_logits= and max_logits="
            )
        if out is not None:
            raise _core.InvalidRequest(
                "out = given, must be None for subclasses and under modes and transforms: leave out= away"
            )
        if options[CAPTURES]:
            options = replaced(options, captures=_scores.as_tensors(options[CAPTURES]))
        result, lse = torch.ops.fa2.forward(q, k, v, *options[:BLOCK_MAP], wants_bits(deterministic))
    elif differentiates:
        return _apply(return_lse, wants_bits(deterministic), options, *differentiable)
    else:
        return _core.forward(q, k, v, out, options, return_lse, True)
    return (result, lse) if return_lse else result


def require_gradients(q: Any, k: Any, v: Any, options: Any) -> None:
    """Raises if attention of these tensors has no gradients."""
    if (error := no_gradients(q, k, v)) is None:
        return
    if not torch.compiler.is_compiling() and is_plain(q, k, v):
        _core.check(q, k, v, None, options)  # tensors that do not fit have no attention either
    raise error


def wants_bits(deterministic: bool) -> bool:
    return deterministic or torch.are_deterministic_algorithms_enabled()


def explain(q: Any, k: Any, v: Any, options: Options, gradients: int) -> str:
    """Returns explain()'s JSON."""
    return _core.explain(q, k, v, _with_float_sinks(_score_tiles.with_tiles(options, q, k)), gradients)


def tune(q: Any, k: Any, v: Any, options: Options, gradients: int, every: bool) -> str:
    """Returns tune()'s JSON."""
    return _core.tune(q, k, v, _with_float_sinks(_score_tiles.with_tiles(options, q, k)), gradients, every)


_hooks.empty_like = torch.empty_like
_torch_ops.register()
