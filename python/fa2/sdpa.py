"""PyTorch's scaled_dot_product_attention and varlen_attn on fa2's kernels, from PyTorch 2.11 on.

    import fa2.sdpa
    torch.nn.attention.activate_flash_attention_impl(fa2.sdpa.register())
    ...
    torch.nn.attention.restore_flash_attention_impl()

Nothing changes before the activation. After it, every call that PyTorch's own rules give to the FlashAttention backend
goes to fa2, in every thread: see torch.nn.attention.sdpa_kernel().
"""

from __future__ import annotations

from typing import Any

import torch

from . import _torch  # noqa: F401  # registers the operators
from ._call import Options
from ._torch_run import run_backward, run_forward

_BOTTOM_RIGHT = 1  # scaled_dot_product_attention passes is_causal only for equal lengths, where alignment does not matter


def register(name: str = "FA2JIT") -> str:
    """Makes `name` known to torch.nn.attention.activate_flash_attention_impl(), and returns it."""
    try:
        from torch.nn.attention import register_flash_attention_impl
    except ImportError:
        raise RuntimeError(f"PyTorch = {torch.__version__}, must be 2.11 or later to take another FlashAttention") from None
    register_flash_attention_impl(name, register_fn=_activate)
    return name


class _Active:
    """Keeps the operators replaced until remove()."""

    def __init__(self) -> None:
        self._library: Any = torch.library.Library("aten", "IMPL", "CUDA")  # type: ignore[no-untyped-call, unused-ignore]
        for name, function in (
            ("_scaled_dot_product_flash_attention", _sdpa_forward),
            ("_scaled_dot_product_flash_attention_backward", _sdpa_backward),
            ("_flash_attention_forward", _flash_forward),
            ("_flash_attention_backward", _flash_backward),
        ):
            self._library.impl(name, function, "CUDA", allow_override=True)  # type: ignore[no-untyped-call, unused-ignore]

    def remove(self) -> None:
        self._library = None


def _activate() -> _Active:
    return _Active()


def _options(
    scale: float | None,
    is_causal: bool,
    dropout_p: float,
    rng_state: torch.Tensor,
    window: tuple[int | None, int | None],
    sequences: tuple[torch.Tensor | None, torch.Tensor | None, int, int],
    **tensors: torch.Tensor | None,
) -> Options:
    """Returns the options. `sequences`: cu_seqlens_q, cu_seqlens_k (None if not packed), max_seqlen_q, max_seqlen_k."""
    left, right = (-1 if n is None else n for n in window)
    cu_seqlens_q, cu_seqlens_k, max_q, max_k = sequences
    packed = cu_seqlens_q is not None
    fields: dict[str, Any] = dict.fromkeys(Options._fields)
    fields.update(
        softmax_scale=scale,
        mask=_BOTTOM_RIGHT if is_causal else 0,
        window_left=left,
        window_right=right,
        attention_chunk=0,
        softcap=0.0,
        dropout_p=dropout_p,
        dropout_seed=0,
        dropout_offset=0,
        missing_pages=False,
        batch_invariant=False,
        lse_base="natural",
        sm_margin=0,
        dropout_state=rng_state.view(torch.int64) if dropout_p else None,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_q if packed else None,
        max_seqlen_k=max_k if packed else None,
        **tensors,
    )
    return Options(**fields)


def _flash_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cum_seq_q: torch.Tensor | None,
    cum_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqused_k: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, ...]:
    """Computes aten::_flash_attention_forward of (batch, seqlen, heads, head_dim), or packed with cum_seq_q and cum_seq_k."""
    unknown = sorted(name for name, given in others.items() if given is not None)
    if return_debug_mask:
        unknown.append("return_debug_mask")
    if unknown:
        raise NotImplementedError(f"{', '.join(unknown)} = given, must not be given to aten::_flash_attention_forward on fa2")
    if dropout_p:
        rng_state = torch.randint(2**62, (2,), dtype=torch.int64, device=query.device).view(torch.uint64)
    else:
        rng_state = query.new_empty(2, dtype=torch.uint64)
    sequences = (cum_seq_q, cum_seq_k, max_q, max_k)
    window = (window_size_left, window_size_right)
    tables = dict(seqused_k=seqused_k, alibi_slopes=alibi_slopes)
    options = _options(scale, is_causal, dropout_p, rng_state, window, sequences, **tables)
    out, lse = run_forward(query, key, value, None, True, options, keeps=False)  # as torch.ops.fa2.forward
    return out, lse, rng_state, query.new_empty((), dtype=torch.uint64), query.new_empty(0)


def _flash_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    cum_seq_q: torch.Tensor | None,
    cum_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    rng_state: torch.Tensor,
    unused: torch.Tensor,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
) -> tuple[torch.Tensor, ...]:
    """Computes aten::_flash_attention_backward."""
    sequences = (cum_seq_q, cum_seq_k, max_q, max_k)
    window = (window_size_left, window_size_right)
    options = _options(scale, is_causal, dropout_p, rng_state, window, sequences)
    wanted = (True, True, True, False)
    repeats = torch.are_deterministic_algorithms_enabled()
    made = run_backward(grad_out, None, query, key, value, out, logsumexp, wanted, repeats, options)
    return made[:3]


def _sdpa_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """Computes aten::_scaled_dot_product_flash_attention of (batch, heads, seqlen, head_dim)."""
    longest = query.shape[2], key.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    made = _flash_forward(q, k, v, None, None, *longest, dropout_p, is_causal, return_debug_mask, scale=scale)
    return made[0].transpose(1, 2), made[1], None, None, *longest, *made[2:]


def _sdpa_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    cum_seq_q: torch.Tensor | None,
    cum_seq_k: torch.Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: torch.Tensor,
    philox_offset: torch.Tensor,
    *,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """Computes aten::_scaled_dot_product_flash_attention_backward."""
    d_out, q, k, v, o = (x.transpose(1, 2) for x in (grad_out, query, key, value, out))
    rest = (max_q, max_k, dropout_p, is_causal, philox_seed, philox_offset)
    made = _flash_backward(d_out, q, k, v, o, logsumexp, None, None, *rest, scale=scale)
    return tuple(x.transpose(1, 2) for x in made)
