"""What every backend hands to fa2._core beside q, k, v, out and lse."""

from __future__ import annotations

from typing import Any, NamedTuple

#: By the values of attention()'s `causal`.
MASKS = {False: 0, True: 1, "bottom_right": 1, "top_left": 2}


class Options(NamedTuple):
    """Numbers, then tensors, in the order that python/src and torch.ops.fa2 have too."""

    # written: option fields
    mask: int
    window_left: int
    window_right: int
    batch_invariant: bool
    max_seqlen_q: int | None
    max_seqlen_k: int | None
    softcap: float
    softmax_scale: float | None
    dropout_p: float
    dropout_seed: int
    dropout_offset: int
    alibi_slopes: Any
    sinks: Any
    dropout_state: Any
    cu_seqlens_q: Any
    cu_seqlens_k: Any
    seqused_q: Any
    seqused_k: Any
    page_table: Any
    # end of option fields


#: Where the tensors begin. Some versions of Python wrap annotations.
FIRST_TENSOR = next(i for i, kind in enumerate(Options.__annotations__.values()) if "Any" in str(kind))

# What is read in every call.
SOFTMAX_SCALE = Options._fields.index("softmax_scale")
DROPOUT_P = Options._fields.index("dropout_p")
SINKS = Options._fields.index("sinks")
CU_SEQLENS_Q = Options._fields.index("cu_seqlens_q")
SEQUSED_Q = Options._fields.index("seqused_q")


def replaced(options: tuple[Any, ...], **values: Any) -> Options:
    """Returns the options with other values."""
    return Options(*options)._replace(**values)


def rows_may_be_unused(cu_seqlens: Any, seqused: Any) -> bool:
    """Whether rows may belong to no sequence: nothing is written there."""
    return cu_seqlens is not None or seqused is not None
