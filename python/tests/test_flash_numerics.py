"""flash_attn's functions under FlashAttention's criterion: at most 2 (outputs) or 3 (gradients) times the error of
attention computed in the operands' dtype. `pytest -m gpu test_flash_numerics.py --cases 3000 --seed N` draws more."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import flash_reference  # noqa: E402
from flash_cases import FEW, Case  # noqa: E402

from fa2 import flash_attn_interface as flash  # noqa: E402
from fa2.bert_padding import pad_input, unpad_input  # noqa: E402


def worst(a: Any, b: Any) -> float:
    return float((a.detach().float() - b.detach().float()).abs().max()) if a.numel() else 0.0


def check(found: Any, exact: Any, low: Any, factor: float, what: str, atol: float = 0.0) -> None:
    error, allowed = worst(found, exact), factor * worst(low, exact) + atol
    assert torch.isfinite(found).all(), f"{what} is not finite"
    assert error <= allowed, f"{what}: error {error}, {allowed} is allowed"


def lengths(case: Case, device: str, of: int) -> Any:
    """Returns lengths (batch) from 1 to `of`. At least one is `of`."""
    found = torch.randint(max(1, of // 2), of + 1, (case.batch,), device=device)
    found[0] = of
    return found


def mask_of(seqlens: Any, seqlen: int) -> Any:
    return torch.arange(seqlen, device=seqlens.device) < seqlens[:, None]


def call(case: Case, q: Any, k: Any, v: Any, rows: Any, columns: Any, slopes: Any) -> Any:
    """Returns (out, lse or None, S_dmask) of padded q, k and v."""
    options = dict(
        dropout_p=case.dropout_p,
        causal=case.causal,
        window_size=torch.tensor(case.window),
        softcap=case.softcap,
        alibi_slopes=slopes,
        deterministic=case.deterministic,
        return_attn_probs=True,
    )
    if not case.varlen:
        if case.layout == "dense":
            return flash.flash_attn_func(q, k, v, **options)
        if case.layout == "kvpacked":
            return flash.flash_attn_kvpacked_func(q, torch.stack((k, v), 2), **options)
        return flash.flash_attn_qkvpacked_func(torch.stack((q, k, v), 2), **options)
    mask_q, mask_k = mask_of(rows, q.shape[1]), mask_of(columns, k.shape[1])
    q, indices, cu_q, longest_q, _ = unpad_input(q, mask_q)
    k, _, cu_k, longest_k, _ = unpad_input(k, mask_k)
    v = unpad_input(v, mask_k)[0]
    if case.layout == "dense":
        out, lse, s = flash.flash_attn_varlen_func(q, k, v, cu_q, cu_k, longest_q, longest_k, **options)
    elif case.layout == "kvpacked":
        kv = torch.stack((k, v), 1)
        out, lse, s = flash.flash_attn_varlen_kvpacked_func(q, kv, cu_q, cu_k, longest_q, longest_k, **options)
    else:
        qkv = torch.stack((q, k, v), 1)
        out, lse, s = flash.flash_attn_varlen_qkvpacked_func(qkv, cu_q, longest_q, **options)
    assert lse.shape == (case.heads, q.shape[0])
    return pad_input(out, indices, case.batch, case.seqlen_q), None, s


def check_dropout(case: Case, s: Any, hidden: Any, probabilities: Any) -> None:
    """Checks the rate of negative signs, and that magnitudes are the probabilities up to one factor per row."""
    visible = (~hidden).expand(s.shape)
    dropped = float(torch.signbit(s)[visible].float().mean())  # counts -0.0 as well
    assert abs(dropped - case.dropout_p) < 0.01 + 4 * (0.15 / int(visible.sum())) ** 0.5
    exact, low = probabilities
    found = s.float().abs().masked_fill(hidden, 0)
    found = found / found.sum(-1, keepdim=True).clamp(min=1e-30)
    assert worst(found, exact) <= 2 * worst(low, exact) + 2**-8 * float(exact.detach().max())


def run(case: Case, device: str) -> None:
    torch.manual_seed(case.seed)
    dtype = getattr(torch, case.dtype)
    shape_k = (case.batch, case.seqlen_k, case.heads_kv, case.head_dim)
    q = torch.randn(case.batch, case.seqlen_q, case.heads, case.head_dim, device=device, dtype=dtype)
    k, v = (torch.randn(shape_k, device=device, dtype=dtype) for _ in range(2))
    if case.softcap:
        q = q * case.softcap  # so that scores reach the cap
    rows, columns = (lengths(case, device, n) for n in (case.seqlen_q, case.seqlen_k))
    if case.layout == "qkvpacked":
        rows = columns
    if not case.varlen:
        rows, columns = None, None
    slopes = torch.rand(case.batch, case.heads, device=device) * 0.3 if case.alibi else None
    tensors = tuple(x.requires_grad_() for x in (q, k, v))
    out, _, s = call(case, *tensors, rows, columns, slopes)

    n = torch.full((case.batch,), case.seqlen_q, device=device) if rows is None else rows
    m = torch.full((case.batch,), case.seqlen_k, device=device) if columns is None else columns
    hidden = flash_reference.hidden_keys(n, m, case.causal, case.window, case.seqlen_q, case.seqlen_k)
    keep = None
    if case.dropout_p:
        size = (case.seqlen_q, case.seqlen_k)
        s = torch.nn.functional.pad(s, (0, size[1] - s.shape[-1], 0, size[0] - s.shape[-2]))
        keep = s >= 0
    else:
        assert s.numel() == 0
    options = dict(rows=rows, columns=columns, causal=case.causal, window=case.window, softcap=case.softcap)
    options.update(slopes=slopes, dropout_p=case.dropout_p, keep=keep)
    exact, p_exact = flash_reference.attention(*tensors, **options)
    low, p_low = flash_reference.attention(*tensors, **options, low_precision=True)
    if keep is not None:
        check_dropout(case, s, hidden, (p_exact.float(), p_low.float()))

    atol = 1e-5 if case.causal else 0.0
    check(out, exact, low, 2, "out", atol)
    d_out = torch.randn_like(out)
    grads = [torch.autograd.grad(x, tensors, d_out) for x in (out, exact, low)]
    factor = 2 if case.layout == "qkvpacked" else 3
    for name, *parts in zip(("dq", "dk", "dv"), *grads):
        check(*parts, factor, name, atol)


@pytest.mark.parametrize("case", FEW, ids=str)
def test_interpreted(case: Case) -> None:
    run(case, "cpu")


@pytest.mark.gpu
def test_on_a_gpu(drawn_case: Case) -> None:
    run(drawn_case, "cuda")
