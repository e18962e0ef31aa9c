"""The attention function of transformers' layers."""

from __future__ import annotations

from typing import Any

import torch
from transformers.utils import logging

from .. import torch_context_parallel
from .._attention import attention
from .._padding import pad_head_dim
from ._lengths import Lengths, are_causal, are_lengths
from ._packing import is_packed, read_packed
from ._patterns import texts_of

_logger = logging.get_logger(__name__)


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    max_length_q: int | None = None,
    max_length_k: int | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Returns (out (batch, seqlen_q, heads, head_dim_v), None) for query (batch, heads, seqlen_q, head_dim) and keys likewise.

    attention_mask: what find_lengths() returned, or (batch or 1, heads or 1, seqlen_q, seqlen_k): bool, True for visible keys,
    or numbers to add, the dtype's least for hidden keys. Four dimensions say all, so that neither is_causal nor sliding_window
    counts. A query that sees no key gets 0. position_bias: numbers to add, likewise, next to any mask. Both may require gradients.
    sliding_window: how many keys a query sees, itself included; without a causal mask, on either side. s_aux: sinks (heads).
    Sequences are packed if cu_seq_lens_q is given, or if find_lengths() found it. If the mask does not say whether attention is
    causal, is_causal does, or else the module's attribute.

    Without gradients, keys and values are never copied. With gradients, they are copied if the mask has padding on the
    left and rows of one batch entry do not follow those of the entry before.
    """
    if others.get("output_attentions"):
        _logger.warning_once("output_attentions = True, must be False on fa2: attention weights need attn_implementation='eager'")
    if others.get("cache") is not None:
        raise NotImplementedError("cache = given, must be None: fa2 does not run transformers' continuous batching")
    q, k, v = (x.transpose(1, 2) for x in _cast(module, query, key, value))
    if q.numel() == 0 or k.numel() == 0:
        return q.new_zeros(*q.shape[:3], v.shape[-1]), None
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    if attention_mask is not None and are_lengths(attention_mask) and not is_packed(attention_mask):
        causal = are_causal(attention_mask)
    numbers: dict[str, Any] = {
        "causal": causal,
        "softmax_scale": q.shape[-1] ** -0.5 if scaling is None else scaling,
        "softcap": softcap or 0.0,
        "sinks": s_aux,
        "dropout_p": dropout if module.training else 0.0,
    }
    is_shard = torch_context_parallel.is_active()
    if sliding_window is not None and (is_shard or k.shape[1] > sliding_window):
        numbers["window_size"] = (sliding_window - 1, 0 if causal else sliding_window - 1)
    if is_shard:
        unknown = dict(attention_mask=attention_mask, position_bias=position_bias, cu_seq_lens_q=cu_seq_lens_q)
        refused = [name for name, given in unknown.items() if given is not None]
        out = torch_context_parallel.attend_layer((x.transpose(1, 2) for x in (q, k, v)), refused, numbers)
        return out.transpose(1, 2), None

    pattern = None if attention_mask is None or are_lengths(attention_mask) else attention_mask
    is_packed_batch = pattern is None and (cu_seq_lens_q is not None or (attention_mask is not None and is_packed(attention_mask)))
    if position_bias is not None and is_packed_batch:
        raise NotImplementedError("position_bias = given, must be None for packed sequences on fa2")
    if pattern is not None and pattern.ndim == 4:
        numbers.update(causal=False, window_size=(-1, -1))

    head_dim_v = v.shape[-1]
    q, k, v = (pad_head_dim(x) for x in (q, k, v))
    if is_packed_batch:
        if cu_seq_lens_q is None and attention_mask is not None:
            cu_seq_lens_q, max_length_q = read_packed(attention_mask)
            cu_seq_lens_k, max_length_k = cu_seq_lens_q, max_length_q
        attention_mask = None
    lengths = None if attention_mask is None or pattern is not None else Lengths.of_mask(attention_mask)
    if pattern is not None or position_bias is not None:
        numbers.update(texts_of(q, k, pattern, position_bias, None if lengths is None else lengths.start))
    if lengths is not None:
        out = _attend_lengths(q, k, v, lengths, numbers)
    elif cu_seq_lens_q is not None and pattern is None:
        borders = (cu_seq_lens_q, cu_seq_lens_q if cu_seq_lens_k is None else cu_seq_lens_k)
        out = _attend_packed(q, k, v, borders, (max_length_q, max_length_k), numbers)
    else:
        out = attention(q, k, v, **numbers)
    return out[..., :head_dim_v], None


def _cast(module: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns float32 tensors, which adapters and autocast leave behind, in the dtype that the model computes in."""
    if tensors[0].dtype != torch.float32:
        return tensors
    kind = tensors[0].device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    elif hasattr(module.config, "_is_quantized"):
        dtype = module.config.dtype
    else:
        dtype = next((x.weight.dtype for x in module.modules() if isinstance(x, torch.nn.Linear)), torch.float32)
    if dtype == torch.float32:
        raise TypeError("query.dtype = float32, must be float16 or bfloat16: load the model with dtype=torch.bfloat16, or autocast")
    _logger.warning_once(f"fa2 casts float32 queries, keys and values to {dtype}")
    return tuple(x.to(dtype) for x in tensors)


def _attend_packed(
    q: Any, k: Any, v: Any, borders: tuple[torch.Tensor, torch.Tensor], longest: tuple[Any, Any], numbers: Any
) -> torch.Tensor:
    """Returns attention of sequences that follow each other in the rows of the batch. Never waits for `longest` on the device."""
    packed = [x.flatten(0, 1) for x in (q, k, v)]
    cu_seqlens_q, cu_seqlens_k = (x.to(torch.int32) for x in borders)
    max_seqlen_q, max_seqlen_k = (
        n if isinstance(n, int) else x.shape[0] for n, x in zip(longest, packed)
    )
    out: torch.Tensor = attention(
        *packed,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        **numbers,
    )
    return out.view(*q.shape[:2], *out.shape[1:])


def _attend_lengths(q: Any, k: Any, v: Any, lengths: Lengths, numbers: dict[str, Any]) -> torch.Tensor:
    """Returns attention of keys and values in place, with padding before and after them."""
    numbers = {**numbers, "seqused_q": lengths.used_q, "seqused_k": lengths.used_k}
    if lengths.start is None:
        result: torch.Tensor = attention(q, k, v, **numbers)
        return result
    apart = _rows_apart(k, v)
    if apart is None:
        k, v = k.contiguous(), v.contiguous()
        apart = k.shape[1]
    result = attention(
        q,
        _packed_in_place(k, apart),
        _packed_in_place(v, apart),
        cu_seqlens_k=lengths.borders(apart),
        max_seqlen_k=k.shape[1],
        **numbers,
    )
    return result


def _rows_apart(k: Any, v: Any) -> int | None:
    """Returns how many rows apart the entries of the batch are, in k and in v; None if that is not one whole number.

    A cache may have other heads between two entries. Their memory then counts as rows of no sequence. With gradients such
    rows must not exist, because gradients of rows that appear twice would have to be added up.
    """
    rows: int = k.shape[1]
    if k.shape[0] == 1 or rows == 1:
        return rows
    apart: int = k.stride(0) // k.stride(1) if k.stride(1) > 0 else 0
    if any(x.stride(0) != apart * x.stride(1) for x in (k, v)) or apart < rows:
        return None
    if apart > rows and torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
        return None
    return apart


def _packed_in_place(x: torch.Tensor, apart: int) -> torch.Tensor:
    """Returns (batch, rows, heads, head_dim) as (rows, heads, head_dim) in place; entries are `apart` rows apart."""
    batch, rows, heads, head_dim = x.shape
    if apart == rows:
        return x.flatten(0, 1)
    return x.as_strided(((batch - 1) * apart + rows, heads, head_dim), x.stride()[1:])
