"""PyTorch's FlashAttention operators, computed by fa2: called directly on CPU tensors, and activated on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
attention = pytest.importorskip("torch.nn.attention")
if not hasattr(attention, "register_flash_attention_impl"):
    pytest.skip("PyTorch before 2.11 takes no other FlashAttention", allow_module_level=True)

from torch.nn.attention.bias import causal_lower_right  # noqa: E402

from fa2 import sdpa  # noqa: E402

NAME = sdpa.register()


def qkv(length_q: int = 24, length_k: int = 24, device: str = "cpu") -> Any:
    generator = torch.Generator().manual_seed(length_q + length_k)
    shapes = ((2, length_q, 4, 64), (2, length_k, 4, 64), (2, length_k, 4, 64))
    made = (torch.randn(shape, generator=generator).to(torch.bfloat16).to(device) for shape in shapes)
    return tuple(x.transpose(1, 2).requires_grad_() for x in made)


def expected(q: Any, k: Any, v: Any, seen: Any = None, **options: Any) -> Any:
    with attention.sdpa_kernel(attention.SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(
            q.float(), k.float(), v.float(), seen, **options
        )


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found.float(), wanted.float(), atol=4e-2, rtol=4e-2)


@pytest.mark.parametrize("is_causal", [False, True])
def test_forward_and_backward(is_causal: bool) -> None:
    tensors = qkv()
    reference = expected(*tensors, is_causal=is_causal, scale=0.2)
    plain = [x.detach() for x in tensors]
    out, lse, cu_q, cu_k, max_q, max_k, seed, offset, _ = sdpa._sdpa_forward(*plain, 0.0, is_causal, scale=0.2)
    close(out, reference)
    assert (cu_q, cu_k, max_q, max_k) == (None, None, 24, 24)
    d_out = torch.randn(out.shape).to(out.dtype)
    options = (cu_q, cu_k, max_q, max_k, 0.0, is_causal, seed, offset)
    found = sdpa._sdpa_backward(d_out, *plain, out, lse, *options, scale=0.2)
    for a, b in zip(found, torch.autograd.grad(reference, tensors, d_out.float())):
        close(a, b)


def test_causal_operators_end_at_the_last_key() -> None:
    """Causal operators align the mask bottom right, as torch.nn.attention.bias.causal_lower_right() expects."""
    q, k, v = (x.detach() for x in qkv(5, 12))
    seen = torch.ones(5, 12, dtype=torch.bool).tril(12 - 5)
    close(sdpa._sdpa_forward(q, k, v, 0.0, True)[0], expected(q, k, v, seen))


def test_results_are_laid_out_as_pytorch_says() -> None:
    tensors = [x.detach() for x in qkv(5, 12)]
    promised = torch.ops.aten._scaled_dot_product_flash_attention(*(x.to("meta") for x in tensors))
    found = sdpa._sdpa_forward(*tensors)
    for a, b in zip(found, promised):
        if isinstance(a, torch.Tensor):
            assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
        else:
            assert a == b
    gradients = sdpa._sdpa_backward(found[0], *tensors, *found[:2], *found[2:6], 0.0, False, *found[6:8])
    for a, b in zip(gradients, tensors):
        assert (a.shape, a.stride()) == (b.shape, b.stride())


def test_packed_sequences_with_windows() -> None:
    q, k, v = (torch.randn(20, 4, 64).to(torch.bfloat16) for _ in range(3))
    borders = torch.tensor([0, 7, 20], dtype=torch.int32)
    window = {"window_size_left": 3, "window_size_right": 0}
    out, lse, *_ = sdpa._flash_forward(q, k, v, borders, borders, 13, 13, 0.0, False, False, **window)
    assert lse.shape == (4, 20)
    for begin, end in ((0, 7), (7, 20)):
        part = [x[begin:end].transpose(0, 1) for x in (q, k, v)]
        seen = torch.ones(end - begin, end - begin, dtype=torch.bool).tril().triu(-3)
        close(out[begin:end], expected(*part, seen).transpose(0, 1))


def test_dropout_of_both_directions_is_one() -> None:
    q, k, v = (x.detach() for x in qkv())
    made = sdpa._sdpa_forward(q, k, v, 0.5)
    d_out = torch.randn(q.shape).to(q.dtype)
    *_, dv = sdpa._sdpa_backward(d_out, q, k, v, *made[:2], *made[2:6], 0.5, False, *made[6:8])
    ours, theirs = made[0].float() * d_out.float(), dv.float() * v.float()
    # out is linear in v, so both sums agree up to rounding. Different masks would make them differ by the root of the
    # number of terms.
    assert abs(float(ours.sum() - theirs.sum())) < 2e-3 * float(ours.abs().sum())


def test_what_is_not_computed_is_told() -> None:
    q = torch.zeros(1, 8, 2, 64, dtype=torch.float16)
    with pytest.raises(NotImplementedError, match="return_debug_mask"):
        sdpa._flash_forward(q, q, q, None, None, 8, 8, 0.0, False, True)
    with pytest.raises(NotImplementedError, match="block_table"):
        sdpa._flash_forward(q, q, q, None, None, 8, 8, 0.0, False, False, block_table=q)


def test_it_is_active_when_asked_for() -> None:
    assert NAME in attention.list_flash_attention_impls()
    assert attention.current_flash_attention_impl() is None
    attention.activate_flash_attention_impl(NAME)
    try:
        assert attention.current_flash_attention_impl() == NAME
    finally:
        attention.restore_flash_attention_impl()
    assert attention.current_flash_attention_impl() is None


@pytest.fixture
def active() -> Any:
    attention.activate_flash_attention_impl(NAME)
    with attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
        yield
    attention.restore_flash_attention_impl()


@pytest.fixture
def launches(monkeypatch: Any) -> Any:
    """Counts the calls that reach fa2."""
    seen: list[int] = []

    def counting(*arguments: Any, **named: Any) -> Any:
        seen.append(1)
        return run_forward(*arguments, **named)

    run_forward = sdpa.run_forward
    monkeypatch.setattr(sdpa, "run_forward", counting)
    return seen


@pytest.mark.gpu
@pytest.mark.parametrize("is_causal", [False, True])
def test_scaled_dot_product_attention(is_causal: bool, active: Any, launches: Any) -> None:
    tensors = qkv(300, 300, "cuda")
    out = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=is_causal)
    assert launches
    reference = expected(*tensors, is_causal=is_causal)
    close(out, reference)
    d_out = torch.randn_like(out)
    wanted = torch.autograd.grad(reference, tensors, d_out.float())
    for a, b in zip(torch.autograd.grad(out, tensors, d_out), wanted):
        close(a, b)


@pytest.mark.gpu
def test_scaled_dot_product_attention_compiled(active: Any, launches: Any) -> None:
    tensors = qkv(300, 300, "cuda")
    compiled = torch.compile(torch.nn.functional.scaled_dot_product_attention, fullgraph=True)
    out = compiled(*tensors, is_causal=True)
    assert launches
    reference = expected(*tensors, is_causal=True)
    close(out, reference)
    for a, b in zip(*(torch.autograd.grad(x.float().square().sum(), tensors) for x in (out, reference))):
        torch.testing.assert_close(a, b, atol=0.1, rtol=0.1)


@pytest.mark.gpu
def test_lower_right_bias(active: Any, launches: Any) -> None:
    q, k, v = qkv(40, 300, "cuda")
    bias = causal_lower_right(40, 300)
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias)
    assert launches
    close(out, expected(q, k, v, torch.ones(40, 300, dtype=torch.bool, device="cuda").tril(260)))


@pytest.mark.gpu
def test_varlen_attn(active: Any, launches: Any) -> None:
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = (torch.randn(200, 4, 64, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    borders = torch.tensor([0, 70, 200], dtype=torch.int32, device="cuda")
    out = varlen_attn(q, k, v, borders, borders, 130, 130)
    assert launches
    for begin, end in ((0, 70), (70, 200)):
        part = [x[begin:end].transpose(0, 1) for x in (q, k, v)]
        close(out[begin:end], expected(*part).transpose(0, 1))


@pytest.mark.gpu
def test_restored_is_pytorch_again(launches: Any) -> None:
    attention.activate_flash_attention_impl(NAME)
    attention.restore_flash_attention_impl()
    torch.nn.functional.scaled_dot_product_attention(*qkv(64, 64, "cuda"))
    assert not launches
