"""Private functions, gradients of packed tensors, dropout's state and errors of fa2.flash_attn_interface."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import flash_reference  # noqa: E402

import fa2  # noqa: E402
from fa2 import flash_attn_3_interface as flash3  # noqa: E402
from fa2 import flash_attn_interface as flash  # noqa: E402

P = 0.17


def random(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def qkv() -> tuple[Any, Any, Any]:
    return random(2, 33, 4, 64), random(2, 48, 2, 64, seed=1), random(2, 48, 2, 64, seed=2)


def test_the_private_pair_is_the_public_function() -> None:
    q, k, v = (x.requires_grad_() for x in qkv())
    d_out = random(*q.shape, seed=3)
    torch.manual_seed(1)
    expected = flash.flash_attn_func(q, k, v, P, causal=True, deterministic=True)
    gradients = torch.autograd.grad(expected, (q, k, v), d_out)
    torch.manual_seed(1)
    out, lse, s, state = flash._wrapped_flash_attn_forward(q, k, v, P, 0.125, True, -1, -1, 0.0, None, True)
    assert torch.equal(out, expected) and not out.requires_grad
    assert lse.shape == (2, 4, 33) and s.shape == (2, 4, 128, 128)
    assert state.shape == (2,) and state.dtype == torch.int64
    made = torch.zeros(2, 33, 6, 64, dtype=q.dtype)[:, :, :4], *torch.zeros(2, 48, 2, 2, 64, dtype=q.dtype).unbind(2)
    tail = (P, 0.125, True, -1, -1, 0.0, None, True)
    sums = flash._flash_attn_backward(d_out, q, k, v, out, lse, *made, *tail, rng_state=state)
    assert all(torch.equal(a, b) for a, b in zip(made, gradients))
    assert sums.shape == (2, 4, 128)
    torch.testing.assert_close(sums[..., :33], (d_out.float() * out.float()).sum(-1).transpose(1, 2))
    some = torch.empty_like(k)
    flash._flash_attn_backward(d_out, q, k, v, out, lse, None, some, None, *tail, rng_state=state)
    torch.testing.assert_close(some, gradients[1], atol=2e-2, rtol=2e-2)  # another kernel computed these
    with pytest.raises(fa2.InvalidRequest, match="rng_state"):
        flash._flash_attn_backward(d_out, q, k, v, out, lse, *made, *tail)


def test_the_private_pair_of_packed_sequences() -> None:
    q, k, v = (x[0].detach().requires_grad_() for x in qkv())
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32) for x in ([0, 13, 30], [0, 20, 48]))
    lengths, window = (17, 28), (-1, -1)
    out = flash.flash_attn_varlen_func(q, k, v, cu_q, cu_k, *lengths, causal=True, deterministic=True)
    gradients = torch.autograd.grad(out.float().sum(), (q, k, v))
    tail = (0.0, 0.125, True, *window)
    found, lse, s, state = flash._flash_attn_varlen_forward(q, k, v, cu_q, cu_k, *lengths, *tail, num_splits=0)
    assert torch.equal(found, out) and lse.shape == (4, 33) and s.numel() == 0
    made = tuple(torch.full_like(x, 7) for x in (q, k, v))
    flash._flash_attn_varlen_backward(
        torch.ones_like(out), q, k, v, out, lse, *made, cu_q, cu_k, *lengths, *tail, 0.0, None, True, state, True
    )
    assert all(torch.equal(a, b) for a, b in zip(made, gradients))
    with pytest.raises(RuntimeError, match="num_splits = 2, must be 0 or 1"):
        flash._flash_attn_varlen_forward(q, k, v, cu_q, cu_k, *lengths, *tail, num_splits=2)


def test_packed_sequences_in_pages_and_with_padding() -> None:
    q, k, v = (x[0] for x in qkv())
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32) for x in ([0, 13, 33], [0, 16, 48]))
    parts = [flash.flash_attn_func(q[None, a:b], k[None, c:d], v[None, c:d]) for a, b, c, d in
             ((0, 13, 0, 16), (13, 33, 16, 48))]  # fmt: skip
    expected = torch.cat([x[0] for x in parts])
    pages = torch.tensor([[1, 0], [0, 2]], dtype=torch.int32)
    k_pages, v_pages = (torch.stack((x[16:32], x[:16], x[32:])) for x in (k, v))
    out = flash.flash_attn_varlen_func(q, k_pages, v_pages, cu_q, cu_k, 20, 32, block_table=pages)
    torch.testing.assert_close(out, expected, atol=8e-3, rtol=8e-3)
    padding = torch.tensor([0, 5], dtype=torch.int32)
    out, *_ = flash._flash_attn_varlen_forward(
        q, k, v, cu_q, cu_k, 20, 32, 0.0, 0.125, False, leftpad_k=padding
    )
    parts[1] = flash.flash_attn_func(q[None, 13:], k[None, 21:], v[None, 21:])
    torch.testing.assert_close(out, torch.cat([x[0] for x in parts]), atol=8e-3, rtol=8e-3)


@pytest.mark.parametrize("head_dim", [64, 59])
def test_gradients_of_packed_tensors_are_one_tensor(head_dim: int) -> None:
    packed = random(2, 33, 3, 2, head_dim).requires_grad_()
    out = flash.flash_attn_qkvpacked_func(packed, causal=True, deterministic=True)
    (found,) = torch.autograd.grad(out.float().square().sum(), packed)
    parts = tuple(x.detach().requires_grad_() for x in packed.unbind(2))
    expected = flash.flash_attn_func(*parts, causal=True, deterministic=True)
    assert torch.equal(out, expected)
    gradients = torch.autograd.grad(expected.float().square().sum(), parts)
    assert torch.equal(found, torch.stack(gradients, 2))
    if head_dim % 8 == 0:
        assert type(out.grad_fn).__name__ != "CloneBackward0" and found._base is None
        assert found.is_contiguous()


def test_keys_and_values_without_a_gradient() -> None:
    q, k, v = qkv()
    kv = torch.stack((k, v), 2)
    q.requires_grad_()
    out = flash.flash_attn_kvpacked_func(q, kv, deterministic=True)
    (found,) = torch.autograd.grad(out.float().sum(), q)
    (expected,) = torch.autograd.grad(flash.flash_attn_func(q, k, v, deterministic=True).float().sum(), q)
    assert torch.equal(found, expected)


def test_dropout_is_repeated_after_manual_seed() -> None:
    packed = torch.stack([random(2, 33, 2, 64, seed=i) for i in range(3)], 2).requires_grad_()
    torch.manual_seed(3)
    first = flash.flash_attn_qkvpacked_func(packed, P)
    second = flash.flash_attn_qkvpacked_func(packed, P)
    torch.manual_seed(3)
    out, _, s = flash.flash_attn_qkvpacked_func(packed, P, return_attn_probs=True)
    assert torch.equal(out, first) and not torch.equal(first, second)
    with torch.no_grad():
        torch.manual_seed(3)
        assert torch.equal(flash.flash_attn_func(*packed.unbind(2), P), first)
    assert (s[:, :, 33:] == 0).all() and (s[..., 33:] == 0).all()


def test_sinks_and_log_sum_exp() -> None:
    q, k, v = qkv()
    sinks = torch.randn(4).requires_grad_()
    out, lse, s = flash.flash_attn_func(q, k, v, s_aux=sinks, return_attn_probs=True)
    expected, expected_lse = fa2.attention(q, k, v, sinks=sinks, return_lse=True)
    assert torch.equal(out, expected) and torch.equal(lse, expected_lse) and s.numel() == 0
    assert torch.autograd.grad(out.float().sum(), sinks)[0].shape == (4,)


@pytest.mark.parametrize("dropout_p", [0.0, P])
def test_a_single_key_has_gradients_that_cancel(dropout_p: float) -> None:
    q, k, v = random(2, 5, 4, 64), random(2, 1, 2, 64, seed=1), random(2, 1, 2, 64, seed=2)
    tensors = tuple(x.requires_grad_() for x in (q, k, v))
    out = flash.flash_attn_func(*tensors, dropout_p)
    dq, dk, dv = torch.autograd.grad(out.float().square().sum(), tensors)
    rounding = 0.0 if dropout_p == 0 else 0.5  # with dropout, out is a multiple of v, rounded
    assert dq.abs().max() <= 1e-4 + rounding and dk.abs().max() <= 1e-4 + rounding
    assert torch.isfinite(dv).all() and dv.abs().max() > 0


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("lengths", [(33, 48), (48, 33)])
def test_chunks_of_flash_attention_3(causal: bool, lengths: tuple[int, int]) -> None:
    n, m = lengths
    q, k, v = (random(2, rows, 2, 64, seed=rows + i).requires_grad_() for i, rows in enumerate((n, m, m)))
    d_out = random(*q.shape, seed=3)
    results = []
    for low in (False, True):
        out, _ = flash_reference.attention(q, k, v, causal=causal, chunk=13, low_precision=low)
        results.append((out, *torch.autograd.grad(out, (q, k, v), d_out)))
    out = flash3.flash_attn_func(q, k, v, causal=causal, attention_chunk=13)
    found = (out, *torch.autograd.grad(out, (q, k, v), d_out))
    for x, exact, low in zip(found, *results):
        assert (x.float() - exact.float()).abs().max() <= 3 * (low.float() - exact.float()).abs().max() + 1e-4
    cu = [torch.tensor([0, rows, 2 * rows], dtype=torch.int32) for rows in lengths]
    packed = flash3.flash_attn_varlen_func(
        *(x.flatten(0, 1) for x in (q, k, v)), *cu, n, m, causal=causal, attention_chunk=13
    )
    torch.testing.assert_close(packed.view_as(out), out, atol=8e-3, rtol=8e-3)
    both = torch.stack((k, k, v), 2)
    torch.testing.assert_close(
        flash3.flash_attn_qkvpacked_func(both, causal=causal, attention_chunk=13),
        flash3.flash_attn_func(k, k, v, causal=causal, attention_chunk=13),
    )
    with pytest.raises(fa2.InvalidRequest, match="attention_chunk = -1, must be"):
        flash3.flash_attn_func(q, k, v, attention_chunk=-1)


def test_flash_attention_3() -> None:
    q, k, v = qkv()
    out, lse = flash3.flash_attn_func(q, k, v, 0.125, True, return_attn_probs=True, pack_gqa=True, num_splits=3)
    expected = flash.flash_attn_func(q, k, v, 0.0, 0.125, True, return_attn_probs=True)
    assert torch.equal(out, expected[0]) and torch.equal(lse, expected[1])
    packed = torch.cat((random(2, 33, 4, 64), k[:, :33], v[:, :33]), 2)
    assert torch.equal(
        flash3.flash_attn_qkvpacked_func(packed, num_heads_q=4), flash3.flash_attn_func(*packed.split((4, 2, 2), 2))
    )
    cu, used = torch.tensor([0, 33, 66], dtype=torch.int32), torch.tensor([20, 33], dtype=torch.int32)
    rows = packed.flatten(0, 1).split((4, 2, 2), 1)
    out = flash3.flash_attn_varlen_func(*rows, cu, cu, 33, 33, used, used)
    assert (out[20:33] == 0).all()
    alone = flash3.flash_attn_func(*(x[None, :20] for x in rows))
    torch.testing.assert_close(out[:20], alone[0], atol=8e-3, rtol=8e-3)
    metadata = flash3.get_scheduler_metadata(2, 1, 33, 4, 2, 64, used)
    assert metadata.dtype == torch.int32
    with pytest.raises(NotImplementedError, match="q_descale"):
        flash3.flash_attn_func(q, k, v, q_descale=torch.ones(2, 2))
    with pytest.raises(fa2.InvalidRequest, match="num_heads_q"):
        flash3.flash_attn_qkvpacked_func(packed)


def test_combine_takes_parts_of_any_strides() -> None:
    parts = torch.randn(3, 2, 4, 5, 64)[..., :4, :].transpose(0, 0)
    lse_parts = torch.randn(3, 2, 6, 4).transpose(-1, -2)[..., :4]
    out, lse = flash3.flash_attn_combine(parts, lse_parts, out_dtype=torch.float16)
    weights = (lse_parts - lse_parts.logsumexp(0)).exp()
    assert out.dtype == torch.float16 and lse.shape == (2, 4, 4)
    torch.testing.assert_close(out.float(), (parts * weights[..., None]).sum(0), atol=4e-3, rtol=4e-3)
    torch.testing.assert_close(lse, lse_parts.logsumexp(0), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("empty", [float("-inf"), float("inf")])
def test_combine_gives_rows_without_a_key_an_lse_of_minus_infinity(empty: float) -> None:
    parts, lse_parts = torch.randn(2, 1, 3, 2, 64), torch.randn(2, 1, 3, 2)
    lse_parts[:, 0, 1], lse_parts[0, 0, 2] = empty, empty
    out, lse = flash3.flash_attn_combine(parts, lse_parts)
    assert torch.equal(lse[0, 1], torch.full((2,), -torch.inf)) and not out[0, 1].any()
    torch.testing.assert_close(lse[0, 2], lse_parts[1, 0, 2])
    torch.testing.assert_close(out[0, 2], parts[1, 0, 2])


def test_errors_are_runtime_errors() -> None:
    q, k, v = qkv()
    for bad in (q.transpose(1, 2), q[:1], q[..., :32]):
        with pytest.raises(RuntimeError):
            flash.flash_attn_func(bad, k, v)
    with pytest.raises(RuntimeError, match="dropout"):
        flash.flash_attn_func(q, k, v, 1.0)
    with pytest.raises(TypeError, match="float16 or bfloat16"):
        flash.flash_attn_func(q.float(), k.float(), v.float())
    with pytest.raises(RuntimeError, match="leftpad_k"):
        flash._flash_attn_varlen_forward(
            *(q, k, v, None, None, 1, 1, 0.0, 1.0, False), block_table=torch.zeros(1), leftpad_k=torch.zeros(1)
        )


def test_compiles_as_one_graph() -> None:
    def step(packed: Any) -> Any:
        return flash.flash_attn_qkvpacked_func(packed * 2, causal=True, window_size=(5, 0)) + 1

    packed = torch.stack([random(2, 24, 2, 64, seed=i) for i in range(3)], 2).requires_grad_()
    eager, compiled = step(packed), torch.compile(step, fullgraph=True, backend="aot_eager")(packed)
    assert torch.equal(eager, compiled)
    gradients = [torch.autograd.grad(x.float().square().sum(), packed)[0] for x in (eager, compiled)]
    torch.testing.assert_close(*gradients, atol=2e-2, rtol=2e-2)
