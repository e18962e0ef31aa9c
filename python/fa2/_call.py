"""The options that every backend passes to fa2._core beside q, k, v, out and lse, and the words of a problem."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._types import LseBase

#: By the values of attention()'s `causal`.
MASKS = {False: 0, True: 1, "bottom_right": 1, "top_left": 2}


class Options(NamedTuple):
    """Numbers, then tensors, in the same order as in python/src and torch.ops.fa2; then texts of scores, and a map."""

    # written: option fields
    mask: int
    window_left: int
    window_right: int
    attention_chunk: int
    missing_pages: bool
    batch_invariant: bool
    lse_base: LseBase
    sm_margin: int
    max_seqlen_q: int | None
    max_seqlen_k: int | None
    softcap: float
    softmax_scale: float | None
    dropout_p: float
    dropout_seed: int
    dropout_offset: int
    max_logits: Any
    alibi_slopes: Any
    sinks: Any
    dropout_state: Any
    query_pieces: Any
    cu_seqlens_q: Any
    cu_seqlens_k: Any
    seqused_q: Any
    seqused_k: Any
    page_table: Any
    k_descale: Any
    v_descale: Any
    # end of option fields
    score_text: int | None = None  #: of make_score_text(); None: no texts
    captures: tuple[Any, ...] | None = None  #: the texts' tensors, and numbers of Python
    block_map: Any = None  #: of _core.make_block_map(); None: the call's launches make their own


#: The options that are tensors. Only texts of scores and a map follow them.
TENSORS = (
    # written: tensor options
    "max_logits",
    "alibi_slopes",
    "sinks",
    "dropout_state",
    "query_pieces",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "seqused_q",
    "seqused_k",
    "page_table",
    "k_descale",
    "v_descale",
    # end of tensor options
)
FIRST_TENSOR = Options._fields.index(TENSORS[0])
SCORE_TEXT = Options._fields.index("score_text")
CAPTURES = Options._fields.index("captures")
BLOCK_MAP = Options._fields.index("block_map")

#: Options that have gradients, in the order of the gradients.
DIFFERENTIABLE = (
    # written: differentiable options
    "sinks",
    # end of differentiable options
)
DIFFERENTIABLE_INDICES = tuple(Options._fields.index(name) for name in DIFFERENTIABLE)

#: A problem's element types of keys and values.
KV_TYPES = {"same": 0, "e4m3": 1, "ds_mla": 3}

#: A problem's bases of the logarithm in LSE.
LSE_BASES = {"natural": 0, "two": 1}

#: A problem's flags, with their meaning.
FLAGS = {
    # written: problem flags
    "softcap": "scores become cap * tanh(score / cap)",
    "alibi": "ALiBi: scores fall with the distance of the key, by a slope per head",
    "sinks": "attention sinks: a logit per head joins the softmax",
    "dropout": "probabilities are dropped at random",
    "query_pieces": "queries are two pieces of a longer sequence",
    "varlen": "sequences have lengths of their own, which only the device knows",
    "missing_pages": "entries of the page table that name no page hide their keys, as -1 in lists of single keys",
    "values_in_keys": "V is the first columns of K, as in latent attention (MLA)",
    "batch_invariant": "the bits of a sequence do not depend on the batch",
    "max_logits": "the largest logit of each head is written",
    "float32_dk_dv": "dK and dV are float32: parts of a sum",
    "float32_dq": "dQ is float32: a part of a sum",
    "float32_out": "O is float32: a part of a merge",
    # end of problem flags
}

#: Options that hold a number per head, by the flags of their problems.
HEAD_NUMBERS = {
    # written: numbers per head
    "alibi": "alibi_slopes",
    "sinks": "sinks",
    # end of numbers per head
}

# What is read in every call.
SOFTCAP = Options._fields.index("softcap")
ALIBI_SLOPES = Options._fields.index("alibi_slopes")
SOFTMAX_SCALE = Options._fields.index("softmax_scale")
DROPOUT_P = Options._fields.index("dropout_p")
SINKS = Options._fields.index("sinks")
MAX_LOGITS = Options._fields.index("max_logits")
CU_SEQLENS_Q = Options._fields.index("cu_seqlens_q")
CU_SEQLENS_K = Options._fields.index("cu_seqlens_k")
MAX_SEQLEN_Q = Options._fields.index("max_seqlen_q")
MAX_SEQLEN_K = Options._fields.index("max_seqlen_k")
PAGE_TABLE = Options._fields.index("page_table")
SEQUSED_Q = Options._fields.index("seqused_q")


def replaced(options: tuple[Any, ...], **values: Any) -> Options:
    """Returns the options with other values."""
    return Options(*options)._replace(**values)


def rows_may_be_unused(cu_seqlens: Any, seqused: Any) -> bool:
    """Returns whether rows may belong to no sequence. Kernels do not write such rows."""
    return cu_seqlens is not None or seqused is not None
