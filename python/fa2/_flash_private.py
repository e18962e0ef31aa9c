"""The private functions of flash_attn 2.8.4 that other projects import. They write gradients into given tensors.

As in flash_attn, they have no autograd. Head dims must be multiples of 8, windows two numbers, softmax_scale a number.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _core
from ._call import DIFFERENTIABLE, DROPOUT_P, Options
from ._flash_call import attend, make_options, read_window
from ._flash_dropout import draw_state, signed_exponentials
from ._torch_run import contiguous, run_backward

#: (out, softmax_lse, S_dmask, rng_state)
Forward = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
_Tensor = torch.Tensor


class _NoExtension:
    """Stands in for flash_attn's extension, whose functions fa2 does not have."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"flash_attn_2_cuda.{name} is not supported by fa2: call a function of fa2.flash_attn_interface")


USE_TRITON_ROCM = False
flash_attn_gpu = _NoExtension()
maybe_contiguous = contiguous


def _get_block_size_n(device: Any, head_dim: int, is_dropout: bool, is_causal: bool) -> int:
    """Returns how many keys share a maximum in S_dmask: all of them."""
    return 1 << 30


def _compute(q: _Tensor, k: _Tensor, v: _Tensor, options: tuple[Any, ...], return_softmax: bool) -> Forward:
    """Computes a forward. With dropout, draws the state here."""
    state = draw_state(q) if options[DROPOUT_P] else q.new_zeros(2, dtype=torch.int64)
    found = Options(*options)._replace(dropout_state=state if options[DROPOUT_P] else None)
    with torch.no_grad():
        out, lse = attend(q, k, v, found, False, True)
        wants_mask = return_softmax and options[DROPOUT_P]
        return out, lse, signed_exponentials(q, k, found) if wants_mask else q.new_empty(0), state


def _differentiate(
    dout: _Tensor,
    q: _Tensor,
    k: _Tensor,
    v: _Tensor,
    out: _Tensor,
    softmax_lse: _Tensor,
    made: tuple[Any, Any, Any],
    deterministic: bool,
    options: tuple[Any, ...],
) -> _Tensor:
    """Writes to `made`. Returns each row's sum of dout * out, float32, shaped like softmax_lse."""
    found = Options(*options)
    if found.dropout_p and found.dropout_state is None:
        raise _core.InvalidRequest("rng_state = None, must be what the forward returned with dropout_p")
    with torch.no_grad():
        if any(x is not None for x in made):
            forward = (q, k, v, contiguous(out), softmax_lse.contiguous())
            run_backward(dout, None, *forward, None, deterministic, found, (*made, *(None for _ in DIFFERENTIABLE)))
        return (dout.float() * out.float()).sum(-1).transpose(-1, -2).contiguous()


def _flash_attn_forward(
    q: _Tensor,
    k: _Tensor,
    v: _Tensor,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: _Tensor | None,
    return_softmax: bool,
) -> Forward:
    """Returns out, lse (b, h, sq), S_dmask or an empty tensor, and rng_state, for q (b, sq, h, d), k and v (b, sk, hk, d)."""
    window = read_window((window_size_left, window_size_right), k.shape[1])
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    options = make_options(causal, window, **numbers)
    return _compute(q, k, v, options, return_softmax)


def _flash_attn_backward(
    dout: _Tensor,
    q: _Tensor,
    k: _Tensor,
    v: _Tensor,
    out: _Tensor,
    softmax_lse: _Tensor,
    dq: _Tensor | None,
    dk: _Tensor | None,
    dv: _Tensor | None,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: _Tensor | None,
    deterministic: bool,
    rng_state: _Tensor | None = None,
) -> _Tensor:
    """Writes those of dq, dk and dv that are not None. Returns softmax_d (b, h, sq rounded up to 128)."""
    window = read_window((window_size_left, window_size_right), k.shape[1])
    state = rng_state if dropout_p else None
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    options = make_options(causal, window, **numbers, dropout_state=state)
    sums = _differentiate(dout, q, k, v, out, softmax_lse, (dq, dk, dv), deterministic, options)
    return torch.nn.functional.pad(sums, (0, -sums.shape[-1] % 128))


def _flash_attn_varlen_forward(
    q: _Tensor,
    k: _Tensor,
    v: _Tensor,
    cu_seqlens_q: _Tensor,
    cu_seqlens_k: _Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: _Tensor | None = None,
    return_softmax: bool = False,
    block_table: _Tensor | None = None,
    leftpad_k: _Tensor | None = None,
    seqused_k: _Tensor | None = None,
    zero_tensors: bool = False,
    num_splits: int = 0,
) -> Forward:
    """Returns what _flash_attn_forward() does, with lse (h, total_q), for q (total_q, h, d), k and v (total_k, hk, d) or pages.

    zero_tensors: ignored, because rows of no sequence are always 0. num_splits above 1 is an error, as in flash_attn.
    """
    if num_splits > 1:
        raise _core.InvalidRequest(f"num_splits = {num_splits}, must be 0 or 1: fa2 splits keys if that is faster")
    tables = packed_tables(cu_seqlens_q, cu_seqlens_k, seqused_k, leftpad_k, block_table)
    window = read_window((window_size_left, window_size_right), max_seqlen_k)
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    options = make_options(causal, window, **numbers, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k, **tables)
    return _compute(q, k, v, options, return_softmax)


def packed_tables(cu_seqlens_q: Any, cu_seqlens_k: Any, seqused_k: Any, leftpad_k: Any, pages: Any) -> dict[str, Any]:
    """Returns the tables. Pages take seqused_k in place of cu_seqlens_k. Padding moves and shortens each sequence."""
    if leftpad_k is not None and pages is not None:
        raise _core.InvalidRequest("leftpad_k = given, must be None with block_table")
    if seqused_k is None and (leftpad_k is not None or pages is not None):
        seqused_k = cu_seqlens_k.diff()
    if pages is not None:
        return dict(cu_seqlens_q=cu_seqlens_q, seqused_k=seqused_k, page_table=pages)
    if leftpad_k is not None:
        cu_seqlens_k = cu_seqlens_k + torch.nn.functional.pad(leftpad_k, (0, 1))
        seqused_k = seqused_k - leftpad_k
    return dict(cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k)


def _flash_attn_varlen_backward(
    dout: _Tensor,
    q: _Tensor,
    k: _Tensor,
    v: _Tensor,
    out: _Tensor,
    softmax_lse: _Tensor,
    dq: _Tensor | None,
    dk: _Tensor | None,
    dv: _Tensor | None,
    cu_seqlens_q: _Tensor,
    cu_seqlens_k: _Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: _Tensor | None,
    deterministic: bool,
    rng_state: _Tensor | None = None,
    zero_tensors: bool = False,
) -> _Tensor:
    """Does what _flash_attn_backward() does; softmax_d is (h, total_q). zero_tensors: zeroes gradients of rows of no sequence."""
    window = read_window((window_size_left, window_size_right), max_seqlen_k)
    made = (dq, dk, dv)
    if zero_tensors:
        for x in made:
            if x is not None:
                x.zero_()
    state = rng_state if dropout_p else None
    numbers: dict[str, Any] = dict(softmax_scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes, dropout_p=dropout_p)
    numbers.update(dropout_state=state, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    options = make_options(causal, window, **numbers, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k)
    return _differentiate(dout, q, k, v, out, softmax_lse, made, deterministic, options)


_wrapped_flash_attn_forward = _flash_attn_forward
_wrapped_flash_attn_backward = _flash_attn_backward
_wrapped_flash_attn_varlen_forward = _flash_attn_varlen_forward
_wrapped_flash_attn_varlen_backward = _flash_attn_varlen_backward
