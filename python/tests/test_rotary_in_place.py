"""Rotary embedding in place, on leaves and views, with the gradients of flash_attn's functions."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fa2 import rotary  # noqa: E402

BATCH, SEQLEN, HEADS, HEADS_KV, HEAD_DIM = 3, 7, 4, 2, 32
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
OFFSETS = {"zero": 0, "number": 5, "tensor": torch.tensor([4, 0, 7], dtype=torch.int32)}


def make_tables(rotary_dim: int, dtype: Any, seed: int = 0) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    angles = torch.rand(2 * SEQLEN, rotary_dim // 2, generator=generator) * 6.3
    return angles.cos().to(dtype), angles.sin().to(dtype)


def make_leaf(*shape: int, dtype: Any) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()


def expected(x: Any, cos: Any, sin: Any, interleaved: bool, offsets: Any) -> Any:
    """Returns x (batch, seqlen, heads, head_dim), rotated by complex products in float32. Differentiable."""
    starts = offsets[:, None] if isinstance(offsets, torch.Tensor) else torch.full((len(x), 1), offsets)
    places = starts + torch.arange(x.shape[1])
    angles = torch.complex(cos[places].float(), sin[places].float())[:, :, None]
    width = 2 * cos.shape[-1]
    columns = x[..., :width].float()
    pairs = columns.unflatten(-1, (-1, 2)) if interleaved else columns.unflatten(-1, (2, -1)).transpose(-1, -2)
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * angles)
    turned = (turned if interleaved else turned.transpose(-1, -2)).flatten(-2)
    return torch.cat((turned.to(x.dtype), x[..., width:]), -1)


def assert_turned(x: Any, out: Any, right: Any, copy: Any) -> None:
    """Checks that out is right and lies in x's memory, that x's gradient is right, and that the incoming gradient is
    unchanged."""
    assert out.data_ptr() == x.data_ptr() and torch.equal(out.detach(), x.detach())
    close = dict(rtol=1e-3, atol=1e-5 if x.dtype == torch.float32 else 2 * torch.finfo(x.dtype).eps)
    torch.testing.assert_close(out, right, **close)
    gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(out.dtype)
    kept = gradient.clone()
    out.backward(gradient)
    assert torch.equal(gradient, kept)
    right.backward(gradient)
    torch.testing.assert_close(x.grad, copy.grad, **close)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotary_dim", [HEAD_DIM, HEAD_DIM // 2])
class TestLeaves:
    def test_one_tensor(self, rotary_dim: int, interleaved: bool, offsets: Any, dtype: Any) -> None:
        x = make_leaf(BATCH, SEQLEN, HEADS, HEAD_DIM, dtype=dtype)
        copy, (cos, sin) = x.detach().clone().requires_grad_(), make_tables(rotary_dim, dtype)
        out = rotary.apply_rotary_emb(x, cos, sin, interleaved, inplace=True, seqlen_offsets=offsets)
        assert_turned(x, out, expected(copy, cos, sin, interleaved, offsets), copy)

    def test_packed_sequences(self, rotary_dim: int, interleaved: bool, offsets: Any, dtype: Any) -> None:
        lengths, (cos, sin) = [7, 1, 4], make_tables(rotary_dim, dtype)
        x = make_leaf(sum(lengths), HEADS, HEAD_DIM, dtype=dtype)
        copy = x.detach().clone().requires_grad_()
        cu_seqlens = torch.tensor([0, 7, 8, 12], dtype=torch.int32)
        out = rotary.apply_rotary_emb(x, cos, sin, interleaved, True, offsets, cu_seqlens, max(lengths))
        starts = offsets.tolist() if isinstance(offsets, torch.Tensor) else [offsets] * BATCH
        parts = [expected(part[None], cos, sin, interleaved, at)[0] for part, at in zip(copy.split(lengths), starts)]
        assert_turned(x, out, torch.cat(parts), copy)

    @pytest.mark.parametrize("apart", [False, True], ids=["one table", "tables for keys"])
    @pytest.mark.parametrize("grouped", [False, True])
    def test_qkv(self, rotary_dim: int, interleaved: bool, offsets: Any, dtype: Any, grouped: bool, apart: bool) -> None:
        heads_kv = HEADS_KV if grouped else HEADS
        shape = (HEADS + 2 * heads_kv,) if grouped else (3, HEADS)
        qkv = make_leaf(BATCH, SEQLEN, *shape, HEAD_DIM, dtype=dtype)
        copy = qkv.detach().clone().requires_grad_()
        (cos, sin), keys = make_tables(rotary_dim, dtype), make_tables(rotary_dim, dtype, seed=int(apart))
        tables = (cos, sin, *keys) if apart else (cos, sin)
        out = rotary.apply_rotary_emb_qkv_(
            qkv, *tables, interleaved=interleaved, seqlen_offsets=offsets, num_heads_q=HEADS if grouped else None
        )
        q, k, v = copy.view(BATCH, SEQLEN, -1, HEAD_DIM).split((HEADS, heads_kv, heads_kv), 2)
        q = expected(q, cos, sin, interleaved, offsets)
        k = expected(k, *keys, interleaved, offsets)
        assert_turned(qkv, out, torch.cat((q, k, v), 2).view(qkv.shape), copy)

    def test_kv(self, rotary_dim: int, interleaved: bool, offsets: Any, dtype: Any) -> None:
        kv = make_leaf(BATCH, SEQLEN, 2, HEADS_KV, HEAD_DIM, dtype=dtype)
        copy, (cos, sin) = kv.detach().clone().requires_grad_(), make_tables(rotary_dim, dtype)
        out = rotary.apply_rotary_emb_kv_(kv, cos, sin, interleaved, offsets)
        right = torch.stack((expected(copy[:, :, 0], cos, sin, interleaved, offsets), copy[:, :, 1]), 2)
        assert_turned(kv, out, right, copy)


@pytest.mark.parametrize("source", ["leaf", "result"])
@pytest.mark.parametrize("views", ["indexed", "unbound", "split"])
def test_views_that_autograd_would_not_change(views: str, source: str) -> None:
    leaf = make_leaf(BATCH, SEQLEN, 3, HEADS, HEAD_DIM, dtype=torch.float32)
    copy, (cos, sin) = leaf.detach().clone().requires_grad_(), make_tables(HEAD_DIM, torch.float32)
    base = leaf if source == "leaf" else leaf * 1
    if views == "indexed":
        q, k = base[:, :, 0], base[:, :, 1]
    elif views == "unbound":
        q, k, _ = base.unbind(2)
    else:
        q, k = (part.squeeze(2) for part in base.split(1, 2)[:2])
    turned = [rotary.apply_rotary_emb(part, cos, sin, inplace=True) for part in (q, k)]
    assert [part.data_ptr() for part in turned] == [q.data_ptr(), k.data_ptr()]
    torch.mul(*turned).square().sum().backward()
    torch.mul(*(expected(copy[:, :, part], cos, sin, False, 0) for part in (0, 1))).square().sum().backward()
    torch.testing.assert_close(leaf.grad, copy.grad)


def test_twice_and_with_a_gradient_that_is_expanded() -> None:
    x, (cos, sin) = make_leaf(BATCH, SEQLEN, HEADS, HEAD_DIM, dtype=torch.float32), make_tables(HEAD_DIM, torch.float32)
    copy = x.detach().clone().requires_grad_()
    once = rotary.apply_rotary_emb(x, cos, sin, inplace=True)
    rotary.apply_rotary_emb(once, cos, sin, inplace=True).sum().backward()
    right = expected(expected(copy, cos, sin, False, 0), cos, sin, False, 0)
    torch.testing.assert_close(x.detach(), right.detach())
    right.sum().backward()
    torch.testing.assert_close(x.grad, copy.grad)


def test_the_gradient_has_a_gradient() -> None:
    x, (cos, sin) = make_leaf(2, 3, 1, 8, dtype=torch.float32), make_tables(8, torch.float32)
    out = rotary.apply_rotary_emb(x, cos, sin, inplace=True)
    weight = torch.randn(out.shape, requires_grad=True)
    (first,) = torch.autograd.grad(out, x, weight, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), weight)
    torch.testing.assert_close(second, 2 * weight)  # rotation keeps lengths


def test_the_module_turns_leaves() -> None:
    module = rotary.RotaryEmbedding(HEAD_DIM, scale_base=512.0)
    qkv = make_leaf(BATCH, SEQLEN, 3, HEADS, HEAD_DIM, dtype=torch.float32)
    copy = qkv.detach().clone().requires_grad_()
    q, kv = module(copy[:, :, 0], copy[:, :, 1:])
    out = module(qkv)
    torch.testing.assert_close(out, torch.cat((q[:, :, None], kv), 2))
    torch.manual_seed(0)
    gradient = torch.randn(out.shape)
    out.backward(gradient)
    torch.autograd.backward((q, kv), (gradient[:, :, 0], gradient[:, :, 1:]))
    torch.testing.assert_close(qkv.grad, copy.grad)


def test_without_gradients_it_is_the_tensor_itself() -> None:
    x, (cos, sin) = make_leaf(BATCH, SEQLEN, HEADS, HEAD_DIM, dtype=torch.float32), make_tables(HEAD_DIM, torch.float32)
    with torch.no_grad():
        assert rotary.apply_rotary_emb(x, cos, sin, inplace=True) is x


@pytest.mark.parametrize("grouped", [False, True])
def test_compiled(grouped: bool) -> None:
    shape = (HEADS + 2 * HEADS_KV,) if grouped else (3, HEADS)
    qkv = make_leaf(BATCH, SEQLEN, *shape, HEAD_DIM, dtype=torch.float32)
    copy, tables = qkv.detach().clone().requires_grad_(), make_tables(HEAD_DIM, torch.float32)
    heads = HEADS if grouped else None
    out = torch.compile(rotary.apply_rotary_emb_qkv_, backend="aot_eager", fullgraph=True)(qkv, *tables, num_heads_q=heads)
    right = rotary.apply_rotary_emb_qkv_(copy, *tables, num_heads_q=heads)
    torch.testing.assert_close(out, right)
    assert torch.equal(qkv, out)
    for result in (out, right):
        result.square().sum().backward()
    torch.testing.assert_close(qkv.grad, copy.grad)


@pytest.mark.parametrize("dims", [3, 4], ids=["(seqlen, ...)", "(batch, seqlen, ...)"])
def test_tables_of_rows(dims: int) -> None:
    x, (cos, sin) = make_leaf(BATCH, SEQLEN, HEADS, HEAD_DIM, dtype=torch.float32), make_tables(HEAD_DIM // 2, torch.float32)
    offsets = OFFSETS["tensor"] if dims == 4 else 0
    places = torch.arange(SEQLEN) + (offsets[:, None] if dims == 4 else 0)
    out = rotary.apply_rotary_emb_torch(x, cos[places], sin[places], interleaved=True)
    torch.testing.assert_close(out, expected(x, cos, sin, True, offsets))
