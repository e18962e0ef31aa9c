"""The types of attention()'s arguments, for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, Union

if TYPE_CHECKING:
    from ._scores import ScoreText


class _Tensor(Protocol):
    """A tensor of PyTorch or numpy."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def ndim(self) -> int: ...


#: All tensors of a call, which are of one library.
Tensor = TypeVar("Tensor", bound=_Tensor)
Causal = Union[bool, Literal["bottom_right", "top_left"]]
Layout = Literal["bshd", "bhsd"]
Dtype = Literal["float16", "bfloat16"]
KvType = Literal["same", "e4m3", "ds_mla"]
LseBase = Literal["natural", "two"]
#: Functions of (score, batch, head, query, key) and of (batch, head, query, key), or texts.
ScoreMod = Union[Callable[[Any, Any, Any, Any, Any], Any], "ScoreText", None]
MaskMod = Union[Callable[[Any, Any, Any, Any], Any], "ScoreText", None]
#: A function or text likewise, or a tensor with an element per score.
Bias = Union[Callable[[Any, Any, Any, Any], Any], "ScoreText", _Tensor, None]


class CallOptions(TypedDict, total=False):
    """attention()'s keywords, except return_lse and return_max_logits."""

    causal: Causal
    window_size: tuple[int, int]
    score_mod: ScoreMod
    mask_mod: MaskMod
    bias: Bias
    # written: option types
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
    # end of option types
    out: Any
    layout: Layout
    deterministic: bool
    autocast: bool
