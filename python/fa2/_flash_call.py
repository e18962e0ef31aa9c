"""Functions that the interfaces of FlashAttention share: they translate windows, head dims and return values."""

from __future__ import annotations

from typing import Any

from . import _torch
from ._call import SOFTMAX_SCALE, replaced
from ._padding import multiple_of, pad_head_dim
from ._types import LseBase


def read_window(window_size: Any, seqlen_k: int) -> tuple[int, int]:
    """Returns (left, right) as numbers. A width below 0, or of all keys, becomes -1: no bound."""
    left, right = window_size
    if type(left) is not int or type(right) is not int:
        left, right = int(left), int(right)
    return left if 0 <= left < seqlen_k else -1, right if 0 <= right < seqlen_k else -1


def make_options(
    causal: bool,
    window: tuple[int, int],
    *,
    # written: option parameters
    attention_chunk: int = 0,
    missing_pages: bool = False,
    batch_invariant: bool = False,
    lse_base: LseBase = "natural",
    sm_margin: int = 0,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    softcap: float = 0.0,
    softmax_scale: float | None = None,
    dropout_p: float = 0.0,
    max_logits: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    dropout_state: Any = None,
    query_pieces: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    seqused_q: Any = None,
    seqused_k: Any = None,
    page_table: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    # end of option parameters
) -> tuple[Any, ...]:
    """Returns a plain tuple in the order of Options, because an eager call makes it faster."""
    mask = 1 if causal else 0
    window_left, window_right = window
    dropout_seed = dropout_offset = 0
    return (
        # written: option names
        mask,
        window_left,
        window_right,
        attention_chunk,
        missing_pages,
        batch_invariant,
        lse_base,
        sm_margin,
        max_seqlen_q,
        max_seqlen_k,
        softcap,
        softmax_scale,
        dropout_p,
        dropout_seed,
        dropout_offset,
        max_logits,
        alibi_slopes,
        sinks,
        dropout_state,
        query_pieces,
        cu_seqlens_q,
        cu_seqlens_k,
        seqused_q,
        seqused_k,
        page_table,
        k_descale,
        v_descale,
        # end of option names
        None,  # texts of scores
        None,
        None,
    )


def with_scale(options: tuple[Any, ...], head_dim: int) -> tuple[Any, ...]:
    """Returns the options with softmax_scale as a number, which follows from the unpadded head dim."""
    return options if options[SOFTMAX_SCALE] is not None else replaced(options, softmax_scale=head_dim**-0.5)


def attend(q: Any, k: Any, v: Any, options: tuple[Any, ...], deterministic: bool, return_lse: bool) -> Any:
    """Returns fa2.attention() for any head dims: out, or (out, lse) if return_lse."""
    head_dim, head_dim_v = q.size(-1), v.size(-1)
    is_whole = head_dim % 16 == 0 and head_dim_v % 16 == 0  # with any keys
    if is_whole or (head_dim % (multiple := multiple_of(k)) == 0 and head_dim_v % multiple == 0):
        return _torch.attend(q, k, v, None, return_lse, deterministic, False, options)
    q, k, v = (pad_head_dim(x, multiple) for x in (q, k, v))
    result = _torch.attend(
        q, k, v, None, return_lse, deterministic, False, with_scale(options, head_dim)
    )
    return (result[0][..., :head_dim_v], result[1]) if return_lse else result[..., :head_dim_v]
