"""torch.ops.fa2.forward and .backward: functional operators for torch.compile, modes and transforms.

Arguments are those of Options, in order, but the map of blocks: launches make their own.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _score_tiles, _scores
from ._call import CAPTURES, DIFFERENTIABLE, DIFFERENTIABLE_INDICES, FIRST_TENSOR, SCORE_TEXT, Options
from ._torch_run import capture_gradients, gradients, new_lse, new_out, no_gradients, run_backward, run_forward

_OPTIONS = (
    # written: option schema
    "int mask, "
    "SymInt window_left, "
    "SymInt window_right, "
    "SymInt attention_chunk, "
    "bool missing_pages, "
    "bool batch_invariant, "
    "str lse_base, "
    "int sm_margin, "
    "SymInt? max_seqlen_q, "
    "SymInt? max_seqlen_k, "
    "float softcap, "
    "float? softmax_scale, "
    "float dropout_p, "
    "int dropout_seed, "
    "int dropout_offset, "
    "Tensor? max_logits, "
    "Tensor? alibi_slopes, "
    "Tensor? sinks, "
    "Tensor? dropout_state, "
    "Tensor? query_pieces, "
    "Tensor? cu_seqlens_q, "
    "Tensor? cu_seqlens_k, "
    "Tensor? seqused_q, "
    "Tensor? seqused_k, "
    "Tensor? page_table, "
    "Tensor? k_descale, "
    "Tensor? v_descale, "
    # end of option schema
    "int? score_text, "
    "Tensor[]? captures, "
    "bool deterministic"
)
_FORWARD = f"forward(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor out, Tensor lse)"
_GRADIENTS = ("dq", "dk", "dv", *(f"d_{name}" for name in DIFFERENTIABLE))
_BACKWARD = f"""backward(Tensor? d_out, Tensor? d_lse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse,
    {", ".join(f"bool needs_{name}" for name in _GRADIENTS)}, bool[] needs_captures, {_OPTIONS})
    -> ({", ".join(f"Tensor {name}" for name in _GRADIENTS)}, Tensor[] d_captures)"""

_library: Any = None


def _forward(q: Any, k: Any, v: Any, *rest: Any) -> Any:
    # Inductor's CUDA graphs warm up in a pool of their own, and count the memory that remains allocated in it.
    return run_forward(q, k, v, None, True, _taken(q, k, rest[:-1]), keeps=False)


def _taken(q: Any, k: Any, given: Any) -> Any:
    """Returns an operator's options as the extension takes them."""
    return _score_tiles.with_tiles(_scores.with_numbers(Options(*given)), q, k)


def _fake_forward(q: Any, k: Any, v: Any, *rest: Any) -> Any:
    return new_out(q, v, rest), new_lse(q, rest)


def _present(q: Any, made: Any, d_captures: Any) -> Any:
    """Replaces None by an empty tensor, because an operator must return tensors."""
    tensors, of_captures = ([q.new_empty(0) if x is None else x for x in found] for found in (made, d_captures or ()))
    return (*tensors, of_captures)


def _backward(d_out: Any, d_lse: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *rest: Any) -> Any:
    count = len(_GRADIENTS)
    wanted, captured, given, deterministic = rest[:count], rest[count], Options(*rest[count + 1 : -1]), rest[-1]
    d_captures = capture_gradients(given.captures, captured)
    made = run_backward(d_out, d_lse, q, k, v, out, lse, wanted, deterministic, _taken(q, k, given), None, d_captures)
    return _present(q, made, d_captures)


def _fake_backward(d_out: Any, d_lse: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *rest: Any) -> Any:
    count = len(_GRADIENTS)
    options = Options(*rest[count + 1 : -1])
    return _present(q, gradients(q, k, v, rest[:count], options), capture_gradients(options.captures, rest[count]))


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, *rest = inputs
    if (error := no_gradients(q, k, v)) is not None:
        raise error
    ctx.deterministic = rest.pop()
    options = Options(*rest)
    captures = options.captures or ()
    _scores.require_gradients(options)
    ctx.numbers, ctx.score_text = options[:FIRST_TENSOR], options.score_text
    ctx.save_for_backward(q, k, v, *output, *options[FIRST_TENSOR:SCORE_TEXT], *captures)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, d_out: Any, d_lse: Any) -> Any:
    q, k, v, out, lse, *tensors = ctx.saved_tensors
    count = SCORE_TEXT - FIRST_TENSOR
    tensors, captures = tensors[:count], tensors[count:]
    texts = (ctx.score_text, None if ctx.score_text is None else captures)
    places = (0, 1, 2, *(len(("q", "k", "v")) + index for index in DIFFERENTIABLE_INDICES))
    wanted = tuple(ctx.needs_input_grad[place] for place in places)
    captured = ctx.needs_input_grad[len(("q", "k", "v")) + CAPTURES] if captures else []
    *made, d_captures = torch.ops.fa2.backward(
        d_out, d_lse, q, k, v, out, lse, *wanted, captured, *ctx.numbers, *tensors, *texts, ctx.deterministic
    )
    found: list[Any] = [None] * len(ctx.needs_input_grad)
    for place, gradient, is_wanted in zip(places, made, wanted):
        found[place] = gradient if is_wanted else None
    if ctx.score_text is not None:
        found[len(("q", "k", "v")) + CAPTURES] = [
            gradient.to(x.dtype) if is_wanted else None
            for x, gradient, is_wanted in zip(captures, d_captures or captures, captured)
        ]
    return tuple(found)


def register() -> None:
    """Registers the operators. Must be called once per process."""
    global _library
    _library = torch.library.Library("fa2", "DEF")  # type: ignore[no-untyped-call, unused-ignore]
    tags = (torch.Tag.needs_fixed_stride_order, torch.Tag.pt2_compliant_tag)
    for schema, run, fake in ((_FORWARD, _forward, _fake_forward), (_BACKWARD, _backward, _fake_backward)):
        name = schema[: schema.index("(")]
        _library.define(" ".join(schema.split()), tags=tags)
        _library.impl(name, run, "CPU")
        _library.impl(name, run, "CUDA")
        torch.library.register_fake(f"fa2::{name}", fake, lib=_library)
    torch.library.register_autograd("fa2::forward", _differentiate, setup_context=_setup_context, lib=_library)
