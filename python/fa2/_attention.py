"""attention(), explain() and tune(): one signature, whichever library the tensors are of."""

from __future__ import annotations

import json
import sys
from typing import Any

from ._call import MASKS, Options
from ._explanation import Explanation


#: By the types that were met.
_backends: dict[type, Any] = {}


def _find_backend(q: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        from . import _torch as backend
    else:
        from . import _numpy as backend  # type: ignore[no-redef, unused-ignore]
    _backends[type(q)] = backend
    return backend


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool | str = False,
    softmax_scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    sinks: Any = None,
    dropout_p: float = 0.0,
    dropout_state: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    seqused_q: Any = None,
    seqused_k: Any = None,
    page_table: Any = None,
    out: Any = None,
    return_lse: bool = False,
    deterministic: bool = False,
    batch_invariant: bool = False,
    autocast: bool = False,
) -> Any:
    """softmax(softmax_scale * q k^T) v, for every sequence and head; differentiable for PyTorch.

    q: (batch, seqlen_q, heads, head_dim); k: (batch, seqlen_k, heads_kv, head_dim); v: (batch, seqlen_k, heads_kv,
    head_dim_v). float16 or bfloat16, any strides; a last dimension that is not contiguous is copied first. heads_kv
    divides heads (grouped-query attention). head_dim and head_dim_v: multiples of 8 up to 256 (see pad_head_dim()).
    CUDA tensors run on their GPU and the current stream; CPU tensors and numpy arrays on the interpreter, slowly.

    Packed sequences: q (total_q, heads, head_dim) with cu_seqlens_q int32 (batch + 1) and max_seqlen_q, the longest
    that a sequence may be; k and v the same way. Pages: k and v (pages, page_size, heads_kv, head_dim) with page_table
    int32 (batch, pages of a sequence) and seqused_k. seqused_q, seqused_k: int32 (batch), how many rows count of each
    sequence. These tables stay on the device; entries that are out of range are cut, or with FA2_CHECK=1 an error.

    causal: query i sees key j iff j <= i + seqlen_k - seqlen_q; with "top_left" iff j <= i.
    softmax_scale: 1 / sqrt(head_dim) if None.
    window_size: (left, right) keys that a query sees around its own place, itself aside; -1: all of them.
    softcap: above 0, scores become softcap * tanh(score / softcap).
    alibi_slopes: float32 (heads) or (batch, heads); slope * distance is subtracted from scores.
    sinks: (heads), a logit that joins each row's softmax without a value; cast to float32.
    dropout_p: in [0, 1), the share of probabilities that are dropped, by PyTorch's generator of the device; or
        dropout_state, int64 (2) on q's device: seed and offset, for the same mask again.
    out: what to write to, shaped like q with v's head_dim; not with gradients. A new one has q's order in memory.
    return_lse: also the log of each row's sum of exponentials, float32 (batch, heads, seqlen_q) or (heads, total_q);
        +inf where a query sees no key, whose output is 0. Differentiable.
    deterministic: the backward has the same bits in every run, as under torch.use_deterministic_algorithms(True); the
        forward always has.
    batch_invariant: a sequence has the bits that it has alone, whatever else is in the batch; so have its gradients.
    autocast: under torch.autocast, float32 tensors are cast to its dtype. Without it they are an error.

    Rows of q in no sequence get 0. Raises InvalidRequest (a ValueError) with all that is wrong, TypeError for dtypes,
    Unavailable where something is missing (a driver, NVRTC, a plan while a graph is captured), CompileError, CudaError.
    """
    left, right = window_size
    options = (  # as Options, which costs a microsecond to make
        softmax_scale,
        MASKS[causal],
        left,
        right,
        softcap,
        dropout_p,
        0,
        0,
        batch_invariant,
        max_seqlen_q,
        max_seqlen_k,
        alibi_slopes,
        sinks,
        dropout_state,
        cu_seqlens_q,
        cu_seqlens_k,
        seqused_q,
        seqused_k,
        page_table,
    )
    backend = _backends.get(type(q)) or _find_backend(q)
    return backend.attend(q, k, v, out, return_lse, deterministic, autocast, options)


def explain(q: Any, k: Any, v: Any, *, backward: bool = False, **options: Any) -> Explanation:
    """What attention(q, k, v, **options) runs, and why: kernels with their config, origin, key and resources.

    A dict, which prints as a few lines of text. backward: the kernels of its gradients instead. May compile. Raises as
    attention() does.
    """
    text = _find_backend(q).explain(q, k, v, 7 if backward else 0, **_as_options(options))
    return Explanation(json.loads(text))


def tune(q: Any, k: Any, v: Any, *, backward: bool = False, every: bool = False, **options: Any) -> Any:
    """Searches the fastest configuration for attention(q, k, v, **options) on q's GPU and stores the record.

    Takes about FA2_TUNE_BUDGET_MS; every: all valid configurations, which takes minutes. backward: the kernels of its
    gradients instead. The report has every candidate with its median in microseconds; of a backward a list of them.
    """
    return json.loads(_find_backend(q).tune(q, k, v, 7 if backward else 0, every, **_as_options(options)))


def _as_options(given: dict[str, Any]) -> dict[str, Any]:
    """attention()'s keywords as the fields of Options."""
    fields = dict(given)
    left, right = fields.pop("window_size", (-1, -1))
    defaults: dict[str, Any] = dict.fromkeys(Options._fields)
    defaults.update(softcap=0.0, dropout_p=0.0, dropout_seed=0, dropout_offset=0, batch_invariant=False)
    fields.update(mask=MASKS[fields.pop("causal", False)], window_left=left, window_right=right)
    return {"options": Options(**{**defaults, **fields})}
