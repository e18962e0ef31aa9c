"""attention(), explain() and tune(): one signature, whichever library the tensors are of."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _core, _hooks, _mistakes
from ._block_maps import HeldMask
from ._call import CU_SEQLENS_Q, MASKS, MAX_LOGITS, Options, replaced
from ._explanation import Explanation
from ._score_tensors import is_tensor, sizes_of
from ._scores import with_texts
from ._types import Bias, CallOptions, Causal, Layout, LseBase, MaskMod, ScoreMod, Tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The modules that compute, by types of q.
_backends: dict[type, Any] = {}


def _find_backend(q: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        from . import _torch as backend
    else:
        from . import _numpy as backend  # type: ignore[no-redef, unused-ignore]
    _backends[type(q)] = backend
    return backend


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, return_lse: Literal[False] = ..., **options: Unpack[CallOptions]
) -> Tensor: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, return_lse: Literal[True], **options: Unpack[CallOptions]
) -> tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, return_lse: bool, **options: Unpack[CallOptions]
) -> Tensor | tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, return_lse: bool = ..., return_max_logits: Literal[True], **options: Unpack[CallOptions]
) -> tuple[Tensor, ...]: ...
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: Causal = False,
    window_size: tuple[int, int] = (-1, -1),
    score_mod: ScoreMod = None,
    mask_mod: MaskMod = None,
    bias: Bias = None,
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
    out: Any = None,
    layout: Layout = "bshd",
    return_lse: bool = False,
    return_max_logits: bool = False,
    deterministic: bool = False,
    autocast: bool = False,
    **unknown: Any,
) -> Any:
    """Returns softmax(softmax_scale * q k^T) v for every sequence and head. Differentiable for PyTorch.

    q: (batch, seqlen_q, heads, head_dim); k: (batch, seqlen_k, heads_kv, head_dim); v: (batch, seqlen_k, heads_kv,
    head_dim_v). float16 or bfloat16, any strides; a last dimension that is not contiguous is copied first. heads_kv
    divides heads (grouped-query attention). head_dim: a multiple of 8 up to 576, head_dim_v: up to 512 (see pad_head_dim()), both
    up to 256 with gradients. Latent attention (MLA): if v is k[..., :head_dim_v], and head_dim above 256, keys are read once.
    k and v may be float8_e4m3fn, both: a key is then k * k_descale and a value v * v_descale, computed with in 16 bits. Head
    dims are then multiples of 16, rows begin at multiples of 16 bytes, and nothing is differentiable.
    CUDA tensors run on their GPU and the current stream; CPU tensors and numpy arrays on the interpreter, slowly.

    Packed sequences: q (total_q, heads, head_dim) with cu_seqlens_q int32 (batch + 1) and max_seqlen_q, an upper bound
    of each sequence's length; k and v likewise. Pages: k and v (pages, page_size, heads_kv, head_dim) with page_table
    int32 (batch, pages per sequence) and seqused_k. These tables stay on the device. Entries out of range are clamped;
    with FA2_CHECK=1 they are an error.

    causal: query i sees key j iff j <= i + seqlen_k - seqlen_q; with "top_left" iff j <= i.
    window_size: (left, right), how many keys before and after its own position a query sees; -1: no bound.
    score_mod, mask_mod, bias: functions of scores, in Python or as a ScoreText of C++, which become part of the kernels:
        score_mod(score, batch, head, query, key) returns the new score, mask_mod(batch, head, query, key) whether the
        query sees the key, bias(batch, head, query, key) what is added to the score. Scores are scaled. Positions count
        from 0 in their sequence. bias comes after softcap and alibi_slopes, then score_mod, mask_mod, and causal and the
        like. Functions may index tensors with positions; their gradients are summed in float32. docs/scores.md has more.
    bias may also be a tensor that broadcasts to (batch, heads, seqlen_q, seqlen_k), of 2 to 4 dimensions: float16, bfloat16 or
        float32 to add to scores, or bool, true where a query sees a key. It is never copied; docs/scores.md says which are fastest.
    out: the output to write, shaped like q with v's head_dim, of q's dtype or float32; not with gradients. A new one has q's order in memory.
    layout: "bhsd" for q, k, v and out of (batch, heads, seqlen, head_dim), by strides and without a copy.
    return_lse: returns (out, lse). lse is the log of each row's sum of exponentials, float32 (batch, heads, seqlen_q)
        or (heads, total_q); +inf for a query without a key, whose output is 0. Differentiable.
    return_max_logits: returns max_logits too, as the last of a tuple: a new tensor, unless max_logits is given. Not
        differentiable, and not under torch.compile.
    deterministic: the backward has the same bits in every run, as under torch.use_deterministic_algorithms(True). The
        forward always has.
    autocast: under torch.autocast, float32 tensors are cast to its dtype. Without this argument they are an error.

    Without dropout_state, the mask of dropout comes from the generator of PyTorch's device; the same state gives the same
    mask again. sinks are cast to float32.

    Numbers and tensors:
    attention_chunk: chunked local attention: a query sees only keys of its own chunk of so many; 0: none.
    missing_pages: entries of the page table that name no page hide their keys, as -1 in lists of single keys.
    batch_invariant: the bits of a sequence do not depend on the batch.
    lse_base: the base of the logarithm in LSE; natural, two.
    sm_margin: SMs that persistent kernels leave to other kernels.
    max_seqlen_q: queries; with varlen of the longest sequence.
    max_seqlen_k: keys; with varlen of the longest sequence.
    softcap: scores become softcap * tanh(score / softcap); scaled scores; finite and above 0; 0: none.
    softmax_scale: any finite value; absent: 1 / sqrt(head_dim).
    dropout_p: share of probabilities that are dropped; at least 0 and below 1; 0: none.
    max_logits: float32 (batch, heads_q); largest score of each head that enters the softmax; -infinity without a
        visible key.
    alibi_slopes: float32 (heads_q) or (batch, heads_q); slope * distance is subtracted from scores.
    sinks: float32 (heads_q); a logit per head that joins each row's softmax without a value; -infinity: none.
    dropout_state: int64 (2); seed and offset on the device, in place of the two numbers, which are 0 then.
    query_pieces: int32 (batch, 3); with varlen: split, first and second of each sequence, in place of the numbers.
    cu_seqlens_q: int32 (batch + 1); where each sequence's rows of Q and O begin, and where the last one's end.
    cu_seqlens_k: int32 (batch + 1); where each sequence's rows of K and V begin, and where the last one's end.
    seqused_q: int32 (batch); how many rows of Q count of each sequence.
    seqused_k: int32 (batch); how many rows of K and V count of each sequence.
    page_table: int32 (batch, max_pages); the pages of each sequence.
    k_descale: float32 (batch, heads_kv); factors of 8-bit keys; absent: 1.
    v_descale: float32 (batch, heads_kv); factors of 8-bit values; absent: 1.

    Rows of q in no sequence get 0. Raises InvalidRequest (a ValueError), which lists everything that is wrong, with types
    or dtypes among it InvalidType (also a TypeError); Unavailable if a driver, NVRTC, or during the capture of a graph a
    plan is missing; CompileError, CudaError.
    """
    try:
        mask, dropout_seed, dropout_offset = MASKS[causal], 0, 0
        window_left, window_right = window_size
        options: tuple[Any, ...] = (  # as Options, which costs a microsecond to make
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
            None,
            None,
            None,
        )
        if unknown:
            raise TypeError("unexpected keywords")
        if score_mod is not None or mask_mod is not None or bias is not None:
            sizes = _sizes_of(q, k, layout, options) if is_tensor(bias) or isinstance(mask_mod, HeldMask) else None
            options = with_texts(options, q, score_mod, mask_mod, bias, sizes)
        if return_max_logits:
            return _with_max_logits(q, k, v, out, layout, return_lse, deterministic, autocast, options)
        backend = _backends.get(type(q)) or _find_backend(q)
        if layout == "bshd":
            return backend.attend(q, k, v, out, return_lse, deterministic, autocast, options)
        swapped = (_swap(x, layout) for x in (q, k, v, out))
        result = backend.attend(*swapped, return_lse, deterministic, autocast, options)
        return (_swap(result[0], layout), result[1]) if return_lse else _swap(result, layout)
    except _mistakes.CAUGHT as error:
        given = locals()
        better = _error_of(error, {name: given[name] for name in ("q", "k", "v", *_DEFAULTS)}, unknown)
        if better is error:
            raise
        raise better from None


#: attention()'s keywords.
_DEFAULTS: dict[str, Any] = attention.__kwdefaults__ or {}
_ALL_GRADIENTS, _BITWISE = 7, 256  # of fa2/c_backward.h


def _swap(x: Any, layout: str) -> Any:
    """Returns a view with the other order of rows and heads: of (batch, heads, seqlen, head_dim) or back."""
    if layout != "bhsd":
        raise ValueError(layout)
    if x is None:
        return None
    if x.ndim != 4:
        raise _core.InvalidRequest('layout = "bhsd", must be "bshd" for tensors of other than four dimensions')
    return x.swapaxes(1, 2)


def _sizes_of(q: Any, k: Any, layout: str, options: Any) -> Any:
    """Returns the sizes of scores, or None: see sizes_of(). options: a tuple like Options."""
    return sizes_of(q, k, options) if layout == "bshd" else sizes_of(_swap(q, layout), _swap(k, layout), options)


def _new_max_logits(q: Any, cu_seqlens_q: Any) -> Any:
    """Returns memory for max_logits. q: (batch, seqlen_q, heads, head_dim), or packed."""
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    return _hooks.new(q, (batch, q.shape[-2]), "float32")


def _with_max_logits(
    q: Any, k: Any, v: Any, out: Any, layout: str, return_lse: bool, deterministic: bool, autocast: bool, options: Any
) -> tuple[Any, ...]:
    """Returns (out, max_logits), or (out, lse, max_logits). `options`: a tuple like Options."""
    q, k, v, out = (q, k, v, out) if layout == "bshd" else (_swap(x, layout) for x in (q, k, v, out))
    if (logits := options[MAX_LOGITS]) is None:
        logits = _new_max_logits(q, options[CU_SEQLENS_Q])
        options = replaced(options, max_logits=logits)
    result = _find_backend(q).attend(q, k, v, out, return_lse, deterministic, autocast, options)
    result, *lse = result if return_lse else (result,)
    return (result if layout == "bshd" else _swap(result, layout), *lse, logits)


def _error_of(error: BaseException, arguments: dict[str, Any], unknown: dict[str, Any]) -> BaseException:
    def check(wrong: Any) -> None:
        tensors = [None if name in wrong else arguments[name] for name in ("q", "k", "v", "out")]
        if "layout" not in wrong and arguments["layout"] == "bhsd":
            tensors = [_swap(x, "bhsd") for x in tensors]
        sound = {name: value for name, value in arguments.items() if name not in wrong}
        q, k, v, out = tensors
        _core.check(q, k, v, out, _as_options(sound))

    return _mistakes.error_of(error, arguments, unknown, check)


def _as_options(given: dict[str, Any]) -> Options:
    """Returns attention()'s keywords as the extension takes them."""
    fields = {**_DEFAULTS, **given, "dropout_seed": 0, "dropout_offset": 0, "score_text": None, "captures": None, "block_map": None}
    fields["window_left"], fields["window_right"] = fields["window_size"]
    fields["mask"] = MASKS[fields["causal"]]
    return Options(*(fields[name] for name in Options._fields))


def _on_backend(function: str, q: Any, k: Any, v: Any, given: Any, backward: bool, *others: Any) -> str:
    """Calls explain() or tune() of q's backend with attention()'s keywords. Raises as attention() does."""
    unknown = {name: value for name, value in given.items() if name not in _DEFAULTS}
    known = {**_DEFAULTS, **{name: value for name, value in given.items() if name in _DEFAULTS}}
    gradients = _ALL_GRADIENTS | (_BITWISE if known["deterministic"] else 0) if backward else 0
    try:
        if unknown:
            raise TypeError("unknown keywords")
        tensors = [q, k, v] if known["layout"] == "bshd" else [_swap(x, known["layout"]) for x in (q, k, v)]
        if known["return_max_logits"] and known["max_logits"] is None:
            known["max_logits"] = _new_max_logits(tensors[0], known["cu_seqlens_q"])
        options = _as_options(known)
        score_mod, mask_mod, bias = (known[name] for name in ("score_mod", "mask_mod", "bias"))
        if score_mod is not None or mask_mod is not None or bias is not None:
            sizes = sizes_of(tensors[0], tensors[1], options) if is_tensor(bias) else None
            options = with_texts(options, q, score_mod, mask_mod, bias, sizes)
        json_text: str = getattr(_find_backend(q), function)(*tensors, options, gradients, *others)
        return json_text
    except _mistakes.CAUGHT as error:
        better = _error_of(error, {"q": q, "k": k, "v": v, **known}, unknown)
        if better is error:
            raise
        raise better from None


def explain(
    q: Tensor, k: Tensor, v: Tensor, *, backward: bool = False, **options: Unpack[CallOptions]
) -> Explanation:
    """Returns what attention(q, k, v, **options) runs, and why: kernels with their config, origin, key and resources.

    The result is a dict, which prints as a few lines of text. Its "texts" are those of score_mod, its mod_slope, mask_mod and bias.
    backward: the kernels of the gradients instead. May compile. Raises as attention() does.
    """
    found = json.loads(_on_backend("explain", q, k, v, options, backward))
    content = found["problem"].get("score_text") or {}
    names = (("bias", "bias"), ("score_mod", "mod"), ("mod_slope", "mod_slope"), ("mask_mod", "mask"))
    texts = {name: content[text] for name, text in names if text in content}
    return Explanation({**found, "texts": texts} if texts else found)


def tune(
    q: Tensor, k: Tensor, v: Tensor, *, backward: bool = False, every: bool = False, **options: Unpack[CallOptions]
) -> Any:
    """Searches the fastest configuration for attention(q, k, v, **options) on q's GPU and stores the record.

    Takes about FA2_TUNE_BUDGET_MS; every: all valid configurations, which takes minutes. backward: the kernels of the
    gradients instead. Returns a report with every candidate and its median in microseconds; for a backward a list of
    reports.
    """
    return json.loads(_on_backend("tune", q, k, v, options, backward, every))
