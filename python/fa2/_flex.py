"""flex_attention() with the arguments of torch.nn.attention.flex_attention, on fa2's kernels."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _core
from ._attention import attention
from ._block_mask import mask_of
from ._padding import multiple_of, pad_head_dim

#: Options of FlexAttention's Triton kernels that change no result, also with fwd_ or bwd_ before them.
_HINTS = frozenset(
    """BACKEND BLOCKS_ARE_CONTIGUOUS BLOCK_M BLOCK_M1 BLOCK_M2 BLOCK_N BLOCK_N1 BLOCK_N2 FORCE_USE_FLEX_ATTENTION PRESCALE_QK
    ROWS_GUARANTEED_SAFE SPLIT_KV USE_TMA WRITE_DQ kpack matrix_instr_nonkdim num_buffers_warp_spec num_consumer_groups num_stages
    num_warps waves_per_eu""".split()
)


class AuxRequest(NamedTuple):
    """What flex_attention() returns beside its output. PyTorch's AuxRequest serves too."""

    lse: bool = False
    max_scores: bool = False  #: fa2 has no largest score of each row: must be False


class AuxOutput(NamedTuple):
    """The results of an AuxRequest; None for what was not requested."""

    lse: Any = None
    max_scores: Any = None


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Mapping[str, Any] | None = None,
    *,
    return_aux: Any = None,
) -> Any:
    """Returns what torch.nn.attention.flex_attention.flex_attention() does, without torch.compile. Differentiable.

    query: (batch, heads, queries, head_dim); key: (batch or 1, heads_kv, keys, head_dim); value: (batch or 1, heads_kv, keys,
    head_dim_v). float16 or bfloat16; tensors of PyTorch. Head dims that are no multiples of 8 are padded, which copies.

    score_mod(score, batch, head, query, key) returns the new score; or a ScoreText.
    block_mask: of fa2.create_block_mask(), or PyTorch's. It must be for these lengths.
    scale: the factor of scores; None: 1 / sqrt(head_dim).
    enable_gqa: heads may be a multiple of heads_kv.
    return_lse: returns (out, lse): the natural log of each row's sum of exponentials, float32 (batch, heads, queries);
        -infinity for a query that sees no key. Differentiable.
    return_aux: AuxRequest(lse=True): returns (out, AuxOutput(lse=...)).
    kernel_options: hints to Triton's kernels are ignored; others are an error.

    Raises InvalidRequest, as attention() does.
    """
    _check(query, key, value, block_mask, enable_gqa, return_lse, kernel_options, return_aux)
    head_dim, head_dim_v = query.shape[-1], value.shape[-1]
    mask_mod: Any = None if block_mask is None else mask_of(block_mask, query, key)
    if key.shape[0] != query.shape[0]:
        # Copies, because TMA reads no keys that sequences share, and gradients without it have a larger error.
        key, value = (x.expand(query.shape[0], -1, -1, -1).contiguous() for x in (key, value))
    query, key, value = (pad_head_dim(x, multiple_of(key)) for x in (query, key, value))
    wants_lse = return_lse or (return_aux is not None and bool(return_aux.lse))
    result: Any = attention(
        query,
        key,
        value,
        score_mod=score_mod,
        mask_mod=mask_mod,
        softmax_scale=1 / math.sqrt(head_dim) if scale is None else scale,
        layout="bhsd",
        return_lse=wants_lse,
    )
    lse: Any
    out, lse = result if wants_lse else (result, None)
    if head_dim_v != out.shape[-1]:
        out = out[..., :head_dim_v]
    if wants_lse:
        lse = lse.masked_fill(lse == math.inf, -math.inf)  # a row without a key
    if return_aux is None:
        return (out, lse) if wants_lse else out
    return out, _aux_output()(lse if return_aux.lse else None, None)


def _aux_output() -> Any:
    """Returns PyTorch's AuxOutput where there is one, for users who ask for its type."""
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    return getattr(flex, "AuxOutput", AuxOutput)


def _check(q: Any, k: Any, v: Any, block_mask: Any, enable_gqa: bool, return_lse: bool, kernel_options: Any, return_aux: Any) -> None:
    torch = sys.modules.get("torch")
    for name, x in (("query", q), ("key", k), ("value", v)):
        if torch is None or not isinstance(x, torch.Tensor):
            raise _core.InvalidType(f"{name} = {type(x).__name__}, must be a PyTorch tensor: call fa2.attention() for arrays")
        if x.ndim != 4:
            raise _core.InvalidRequest(f"{name}.shape = {tuple(x.shape)}, must be (batch, heads, seqlen, head_dim)")
    if not enable_gqa and q.shape[1] != k.shape[1]:
        raise _core.InvalidRequest(f"key.shape[1] = {k.shape[1]} heads, must be {q.shape[1]}, as query has: pass enable_gqa=True for grouped queries")
    if k.shape[0] != q.shape[0] and (block_mask is None or k.shape[0] != 1 or v.shape[0] != 1):
        raise _core.InvalidRequest(
            f"key.shape[0] = {k.shape[0]} sequences, must be {q.shape[0]}, as query has, or 1 with a block_mask: expand key and value"
        )
    if return_lse and return_aux is not None:
        raise _core.InvalidRequest("return_lse = True, must be False with return_aux: pass return_aux=AuxRequest(lse=True) alone")
    if getattr(return_aux, "max_scores", False):
        raise _core.InvalidRequest("return_aux.max_scores = True, must be False: fa2.attention() has return_max_logits, of each head")
    for name in kernel_options or ():
        if name.removeprefix("fwd_").removeprefix("bwd_") not in _HINTS:
            raise _core.InvalidRequest(f"kernel_options = {name}, must be a hint to Triton's kernels, which fa2 ignores: leave it out")
