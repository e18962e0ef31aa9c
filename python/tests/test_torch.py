"""CPU tensors of PyTorch: gradients, operators, compilation, modes. The interpreter computes them."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import fa2._torch  # noqa: E402  # registers torch.ops.fa2
from fa2._call import BLOCK_MAP, Options  # noqa: E402


def random(*shape: int, dtype: Any = torch.bfloat16, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)


def qkv(seqlen_q: int = 24, seqlen_k: int = 32, requires_grad: bool = True) -> Any:
    k, v = random(2, seqlen_k, 2, 64, seed=1), random(2, seqlen_k, 2, 64, seed=2)
    return tuple(x.requires_grad_(requires_grad) for x in (random(2, seqlen_q, 4, 64), k, v))


def materialised(q: Any, k: Any, v: Any, *, causal: bool = False, sinks: Any = None) -> tuple[Any, Any]:
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    rows, keys = scores.shape[-2:]
    if causal:
        visible = torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows)
        scores = scores.masked_fill(~visible, -math.inf)
    joined = scores
    if sinks is not None:
        sink = sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)
        joined = torch.cat([scores, sink], -1)
    lse = joined.logsumexp(-1)
    return ((scores - lse[..., None]).exp() @ v).transpose(1, 2), lse


def worst(a: Any, b: Any) -> float:
    return float((a.detach().double() - b.detach().double()).abs().max())


def test_gradients_against_float64() -> None:
    q, k, v = qkv()
    sinks = torch.randn(4).requires_grad_()
    out, lse = fa2.attention(q, k, v, causal=True, sinks=sinks, return_lse=True)
    expected, expected_lse = materialised(q, k, v, causal=True, sinks=sinks)
    assert worst(out, expected) < 2e-2 and worst(lse, expected_lse) < 1e-4
    d_out, d_lse = random(*out.shape, seed=3), torch.randn(lse.shape)
    found = torch.autograd.grad((out, lse), (q, k, v, sinks), (d_out, d_lse))
    wanted = torch.autograd.grad(
        (expected, expected_lse), (q, k, v, sinks), (d_out.double(), d_lse.double())
    )
    for a, b in zip(found, wanted):
        assert worst(a, b) < 4e-2 * max(1.0, float(b.abs().max()))


def test_only_wanted_gradients_are_computed() -> None:
    q, k, v = qkv(requires_grad=False)
    v.requires_grad_()
    fa2.attention(q, k, v).sum().backward()
    assert v.grad is not None and q.grad is None and k.grad is None


def test_eager_calls_with_and_without_gradients_agree_bitwise() -> None:
    q, k, v = qkv()
    with torch.no_grad():
        plain = fa2.attention(q, k, v, causal=True)
    assert not plain.requires_grad
    assert torch.equal(plain, fa2.attention(q, k, v, causal=True))


def test_views_keep_their_order_in_memory() -> None:
    q = random(2, 4, 24, 64, dtype=torch.float16).transpose(1, 2).requires_grad_()
    out = fa2.attention(q, q, q)
    assert out.stride() == q.stride()
    assert torch.equal(out, fa2.attention(*(q.contiguous() for _ in range(3))))
    out.sum().backward()  # its gradient has strides of 0
    assert worst(q.grad, torch.autograd.grad(materialised(q, q, q)[0].sum(), q)[0]) < 2e-2


def test_slices_of_a_packed_projection() -> None:
    packed = random(2, 24, 3, 2, 64).requires_grad_()
    fa2.attention(*packed.unbind(2)).square().sum().backward()
    (expected,) = torch.autograd.grad(materialised(*packed.unbind(2))[0].square().sum(), packed)
    assert worst(packed.grad, expected) < 2e-2 * float(expected.abs().max())


def test_packed_sequences_have_the_gradients_of_each() -> None:
    q, k, v = (random(21, 2, 64, seed=i).requires_grad_() for i in range(3))
    cu = torch.tensor([0, 5, 18], dtype=torch.int32)
    out = fa2.attention(
        q, k, v, causal=True, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=13, max_seqlen_k=13
    )
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    expected = torch.cat(
        [materialised(*(x[None, a:b] for x in (q, k, v)), causal=True)[0][0] for a, b in ((0, 5), (5, 18))]
    )
    assert worst(out[:18], expected) < 2e-2
    for a, b in zip(grads, torch.autograd.grad(expected.square().sum(), (q, k, v))):
        assert worst(a, b) < 6e-2
        assert (a[18:] == 0).all(), "rows of no sequence"


def test_dropout_follows_the_generator() -> None:
    q, k, v = qkv()
    torch.manual_seed(7)
    first, again = fa2.attention(q, k, v, dropout_p=0.5), fa2.attention(q, k, v, dropout_p=0.5)
    assert not torch.equal(first, again)
    torch.manual_seed(7)
    assert torch.equal(first, fa2.attention(q, k, v, dropout_p=0.5))
    assert all(torch.isfinite(x).all() for x in torch.autograd.grad(first.sum(), (q, k, v)))


def op_arguments(*, deterministic: bool = True) -> tuple[Any, ...]:
    options = Options(**dict.fromkeys(Options._fields))._replace(
        mask=1, window_left=-1, window_right=-1, attention_chunk=0, batch_invariant=False, lse_base="natural", sm_margin=0, softcap=0.0, dropout_p=0.0, dropout_seed=0, dropout_offset=0, sinks=torch.randn(4)
    )
    return (*qkv(), *options[:BLOCK_MAP], deterministic)


def test_opcheck() -> None:
    arguments = op_arguments()
    torch.library.opcheck(torch.ops.fa2.forward, arguments)
    q, k, v, *options = arguments
    with torch.no_grad():
        out, lse = torch.ops.fa2.forward(*arguments)
        inputs = (torch.ones_like(out), None, q.detach(), k.detach(), v.detach(), out, lse)
    torch.library.opcheck(torch.ops.fa2.backward, (*inputs, True, True, True, True, [], *options))
    torch.library.opcheck(torch.ops.fa2.backward, (*inputs, False, True, False, False, [], *options))


def test_compiles_as_one_graph() -> None:
    q, k, v = qkv()

    def step(q: Any, k: Any, v: Any) -> Any:
        return fa2.attention(q * 2, k, v, causal=True, window_size=(16, -1)) + 1

    eager, compiled = step(q, k, v), torch.compile(step, fullgraph=True, backend="aot_eager")(q, k, v)
    assert torch.equal(eager, compiled)
    grads = [torch.autograd.grad(x.square().sum(), (q, k, v)) for x in (eager, compiled)]
    for a, b in zip(*grads):
        assert worst(a, b) < 5e-2


def test_fake_tensors_have_shapes_and_strides_and_launch_nothing() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = random(2, 4, 24, 64).transpose(1, 2)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(real)
        out, lse = fa2.attention(fake, fake, fake, return_lse=True)
    assert (out.shape, out.stride()) == (real.shape, real.stride())
    assert lse.shape == (2, 4, 24) and lse.dtype == torch.float32


def test_modes_see_the_operator() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Listening(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Listening(), torch.no_grad():
        fa2.attention(*qkv())
    assert any(name.startswith("fa2.forward") for name in seen)


def test_checkpointing_gives_the_same_gradients() -> None:
    from torch.utils.checkpoint import checkpoint

    q, k, v = qkv()

    def block(q: Any, k: Any, v: Any) -> Any:
        return fa2.attention(q, k, v, dropout_p=0.3, deterministic=True).square().sum()

    torch.manual_seed(5)
    expected = torch.autograd.grad(block(q, k, v), (q, k, v))
    torch.manual_seed(5)
    found = torch.autograd.grad(checkpoint(block, q, k, v, use_reentrant=False), (q, k, v))
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


def test_autocast_is_asked_for() -> None:
    q, k, v = (x.detach().float() for x in qkv())
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(TypeError, match="autocast=True"):
            fa2.attention(q, k, v)
        assert fa2.attention(q, k, v, autocast=True).dtype == torch.bfloat16


def test_out_goes_without_gradients() -> None:
    q, k, v = qkv()
    with pytest.raises(fa2.InvalidRequest, match="out="):
        fa2.attention(q, k, v, out=torch.empty_like(q))
    with torch.no_grad():
        out = torch.empty_like(q)
        assert fa2.attention(q, k, v, out=out) is out


def test_the_fallback_for_older_versions_reads_the_same() -> None:
    from fa2 import _hooks

    q = random(2, 24, 3, 4, 64)[:, :, 1].transpose(1, 2)
    assert _hooks.describe(q) == (q.data_ptr(), tuple(q.shape), q.stride(), 1, -2, False)


def test_threads_share_plans() -> None:
    from concurrent.futures import ThreadPoolExecutor

    tensors = qkv(seqlen_q=20, requires_grad=False)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: fa2.attention(*tensors), range(8)))
    assert all(torch.equal(x, results[0]) for x in results)


def test_meta_tensors_have_shapes_alone() -> None:
    q = torch.empty(1, 8, 2, 64, dtype=torch.float16, device="meta")
    out, lse = fa2.attention(q, q, q, return_lse=True)
    assert out.is_meta and out.shape == q.shape and lse.shape == (1, 2, 8)


def test_batch_invariant_has_the_gradients_that_do_not_depend_on_the_batch() -> None:
    q, k, v = qkv()
    found, expected = (
        torch.autograd.grad(fa2.attention(q, k, v, causal=True, **options).square().sum(), (q, k, v))
        for options in ({"batch_invariant": True}, {"batch_invariant": True, "deterministic": True})
    )
    assert all(torch.equal(a, b) for a, b in zip(found, expected))
    alone = fa2.attention(q[:1], k[:1], v[:1], causal=True, batch_invariant=True)
    for a, b in zip(found, torch.autograd.grad(alone.square().sum(), (q, k, v))):
        assert torch.equal(a[:1], b[:1])


def test_packed_calls_without_a_query_are_empty() -> None:
    k = random(5, 2, 64)
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32) for x in ([0, 0, 0], [0, 3, 5]))
    tables = dict(cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=0, max_seqlen_k=3)
    for q in (random(0, 4, 64), random(0, 4, 64).requires_grad_()):
        out, lse = fa2.attention(q, k, k, return_lse=True, **tables)
        assert out.shape == (0, 4, 64) and lse.shape == (4, 0)
    assert torch.autograd.grad(out.sum(), q)[0].shape == q.shape


def test_shapes_are_compared() -> None:
    k, cache = random(2, 3, 2, 64), random(2, 8, 2, 64)
    seqlens = torch.zeros(2, dtype=torch.int32)
    for changed, message in (
        (dict(v_cache=random(1, 2, 2, 64)), r"v_cache.shape = \(1, 2, 2, 64\), must be \(2, 8, 2, 64\)"),
        (dict(cache_seqlens=seqlens[:1]), r"cache_seqlens.shape = \(1\), must be \(2\)"),
    ):
        tensors = {"k": k, "v": k, "k_cache": cache, "v_cache": cache.clone(), "cache_seqlens": seqlens, **changed}
        with pytest.raises(fa2.InvalidRequest, match=message):
            fa2.append(**tensors)
    parts, lse_parts = torch.zeros(3, 1, 64, 2, 16), torch.zeros(3, 1, 2, 64)
    with pytest.raises(fa2.InvalidRequest, match=r"out.shape = \(1, 1, 2, 16\), must be \(1, 64, 2, 16\)"):
        fa2.merge(parts, lse_parts, out=torch.zeros(1, 1, 2, 16))
    with pytest.raises(fa2.InvalidRequest, match=r"lse_parts.shape = \(3, 1, 2, 1\)"):
        fa2.merge(parts, lse_parts[..., :1])
    with pytest.raises(fa2.InvalidRequest, match="seqused_k.shape = .*, must be .batch."):
        fa2.attention(*qkv(requires_grad=False), seqused_k=seqlens[:, None][:, :0])
