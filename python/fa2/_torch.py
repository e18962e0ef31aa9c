"""Attention of PyTorch's tensors: launched at once where that is right, else by torch.ops.fa2."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from . import _core, _hooks, _torch_ops
from ._call import DROPOUT_P, SINKS, Options
from ._torch_run import contiguous, new_lse, new_out, run_backward, run_forward

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_count_modes = torch._C._len_torch_dispatch_stack
_peek_transforms = torch._C._functorch.peek_interpreter_stack


class _Attention(torch.autograd.Function):
    """The eager gradient: what torch.ops.fa2.forward has, without the dispatcher's cost. lse is an output if it is asked for."""

    @staticmethod
    def forward(
        ctx: Any, q: Any, k: Any, v: Any, sinks: Any, return_lse: bool, deterministic: bool, options: Any
    ) -> Any:
        ctx.set_materialize_grads(False)
        out, lse = run_forward(q, k, v, None, True, options)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.deterministic = deterministic
        ctx.options = options
        return (out, lse) if return_lse else out

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, d_out: Any, d_lse: Any = None) -> Any:
        q, k, v, out, lse = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:4]
        made = run_backward(d_out, d_lse, q, k, v, out, lse, wanted, ctx.deterministic, Options._make(ctx.options))
        return (*made, None, None, None)


#: _Attention.apply() behind its look for transforms, of which there are none where it is called.
_apply: Any = super(torch.autograd.Function, _Attention).apply


def is_plain(q: Any, k: Any, v: Any) -> bool:
    """Whether nothing but these tensors and their data is concerned: no mode, no transform, no subclass."""
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
    """(seed, offset, None) of the generator of q's device, or where a graph is made (0, 0, numbers that it draws)."""
    if q.is_cuda and not torch.compiler.is_compiling() and not torch.cuda.is_current_stream_capturing():
        generator = torch.cuda.default_generators[q.get_device()]
        offset = generator.get_offset()
        generator.set_offset(offset + 4)  # offsets are multiples of 4
        return generator.initial_seed() & (2**63 - 1), offset, None
    return 0, 0, torch.randint(2**62, (2,), dtype=torch.int64, device=q.device)


def prepared(q: Any, options: Options) -> Options:
    """With sinks in float32, and a mask for dropout."""
    if options.sinks is not None:
        options = options._replace(sinks=options.sinks.float())
    if options.dropout_p and options.dropout_state is None:
        seed, offset, state = draw_dropout(q)
        options = options._replace(dropout_seed=seed, dropout_offset=offset, dropout_state=state)
    return options


def attend(
    q: Any, k: Any, v: Any, out: Any, return_lse: bool, deterministic: bool, autocast: bool, options: Any
) -> Any:
    """`options`: a tuple like Options."""
    if autocast and torch.is_autocast_enabled(q.device.type):
        dtype = torch.get_autocast_dtype(q.device.type)
        q, k, v = (x.to(dtype) if x.dtype == torch.float32 else x for x in (q, k, v))
    if options[DROPOUT_P] or options[SINKS] is not None:
        options = prepared(q, Options(*options))
    sinks = options[SINKS]

    compiling = torch.compiler.is_compiling()
    differentiates = torch.is_grad_enabled() and (
        q.requires_grad or k.requires_grad or v.requires_grad or (sinks is not None and sinks.requires_grad)
    )
    if out is not None and (differentiates or compiling):
        raise _core.InvalidRequest("out= is for eager calls without gradients: use what attention() returns")
    if compiling or not is_plain(q, k, v):
        if out is not None:
            raise _core.InvalidRequest("out= takes ordinary tensors, outside of modes and transforms")
        result, lse = torch.ops.fa2.forward(q, k, v, *options, wants_bits(deterministic))
    elif differentiates:
        return _apply(q, k, v, sinks, return_lse, wants_bits(deterministic), options)
    else:
        result, lse = run_forward(q, k, v, out, return_lse, options)
    return (result, lse) if return_lse else result


def wants_bits(deterministic: bool) -> bool:
    return deterministic or torch.are_deterministic_algorithms_enabled()


def explain(q: Any, k: Any, v: Any, gradients: int, options: Options) -> str:
    q, k, v = contiguous(q), contiguous(k), contiguous(v)
    out, lse = new_out(q, v, options), new_lse(q, options)
    return _core.explain(gradients, 0, q, k, v, out, lse, options)


def tune(q: Any, k: Any, v: Any, gradients: int, every: bool, options: Options) -> str:
    q, k, v = contiguous(q), contiguous(k), contiguous(v)
    out, lse = new_out(q, v, options), new_lse(q, options)
    return _core.tune(gradients, every, q, k, v, out, lse, options)


_hooks.install(torch.empty_like)
_torch_ops.register()
