"""FlashAttention-3's qv against float64: in place, copied, packed, and over caches."""

from __future__ import annotations

from typing import Any

import pytest
import reference

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
from fa2 import _latent  # noqa: E402
from fa2 import flash_attn_3_interface as flash3  # noqa: E402
from fa2._flash_call import make_options  # noqa: E402

HEADS, ROPE, LATENT = 2, 16, 256
ENTRIES, ROWS, PAGE = 3, 32, 8
PLAIN = make_options(False, (-1, -1))


def random(*shape: int, seed: int = 0, dtype: Any = torch.float16) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def int32(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32)


def split(rows: Any, latent: int = LATENT) -> tuple[Any, Any]:
    """Returns (rope, latent): neighbouring views of rows (..., latent + rope)."""
    return rows[..., latent:], rows[..., :latent]


def queries(*shape: int, dim: int = LATENT + ROPE) -> Any:
    return random(*shape, HEADS, dim)


def keys(*shape: int, dim: int = LATENT + ROPE, dtype: Any = torch.float16) -> Any:
    return random(*shape, 1, dim, seed=1, dtype=dtype)


@pytest.fixture(params=["in place", "copied"])
def give(request: Any) -> Any:
    """Returns a function that makes the arguments of a call from views: the views, or separate tensors."""
    return (lambda x: x) if request.param == "in place" else torch.clone


def check(out: Any, q: Any, own: list[Any], causal: bool = False) -> None:
    """Compares out with attention of queries [qv | q] to each sequence's own keys [v | k], whose values are k's first columns."""
    assert out.shape == (*q.shape[:-1], LATENT)
    for b, rows in enumerate(own):
        wanted, _ = reference.attention(q[b], rows, rows[..., :LATENT], mask="bottom_right" if causal else None)
        torch.testing.assert_close(out[b].double(), torch.from_numpy(wanted), atol=4e-3, rtol=2e-3)


def test_views_are_joined_in_place() -> None:
    qs, ks = queries(2, 3), keys(2, 20)
    (q, qv), (k, v) = split(qs), split(ks)
    found = _latent.join(q, k, v, qv, PLAIN)
    assert [x.data_ptr() for x in found] == [qs.data_ptr(), ks.data_ptr(), ks.data_ptr()]
    assert [x.stride() for x in found] == [qs.stride(), ks.stride(), v.stride()]
    assert fa2.explain(*found)["problem"]["values_in_keys"]
    one = ks[:1, :1]  # extents of 1, whose strides do not matter
    assert _latent.join(q[:1], one[..., LATENT:].expand(1, 1, 1, -1), one[..., :LATENT], qv[:1], PLAIN)[1].data_ptr() == one.data_ptr()


def test_others_are_copied() -> None:
    qs, ks = queries(1, 3), keys(1, 20)
    (q, qv), (k, v) = split(qs), split(ks)
    swapped = torch.cat((k, v), -1)
    cases = {
        "separate": (k.clone(), v.clone()),
        "k before v": (swapped[..., :ROPE], swapped[..., ROPE:]),
        "other strides": (k[:, :1].expand(-1, 20, -1, -1), v),
        "gaps between columns": (k.repeat_interleave(2, -1)[..., ::2], v),
        "gradients": (k.detach().requires_grad_(), v),
    }
    for name, (given_k, given_v) in cases.items():
        found_q, found_k, found_v = _latent.join(q, given_k, given_v, qv, PLAIN)
        assert found_q.data_ptr() == qs.data_ptr() and torch.equal(found_k, torch.cat((given_v, given_k), -1)), name
        assert found_k.data_ptr() not in (ks.data_ptr(), swapped.data_ptr()) and found_v.data_ptr() == found_k.data_ptr(), name


def test_dense(give: Any) -> None:
    qs, ks = queries(2, 5), keys(2, 20)
    (q, qv), (k, v) = split(qs), split(ks)
    out, lse = flash3.flash_attn_func(give(q), give(k), give(v), causal=True, qv=give(qv), return_attn_probs=True)
    check(out, qs, list(ks), causal=True)
    assert torch.equal(lse, fa2.attention(qs, ks, ks[..., :LATENT], causal=True, return_lse=True)[1])
    scaled = flash3.flash_attn_func(give(q), give(k), give(v), qv=give(qv), softmax_scale=0.01, softcap=2.0)
    assert torch.equal(scaled, fa2.attention(qs, ks, ks[..., :LATENT], softmax_scale=0.01, softcap=2.0))


def test_packed(give: Any) -> None:
    qs, ks = queries(7), keys(30)
    (q, qv), (k, v) = split(qs), split(ks)
    borders = int32(0, 3, 7), int32(0, 11, 30)
    out = flash3.flash_attn_varlen_func(give(q), give(k), give(v), *borders, 4, 19, causal=True, qv=give(qv))
    for rows, own in ((slice(0, 3), slice(0, 11)), (slice(3, 7), slice(11, 30))):
        check(out[None, rows], qs[None, rows], [ks[own]], causal=True)


@pytest.mark.parametrize("kind", ["dense", "entries", "pages", "packed queries", "leftpad", "leftpad, pages"])
def test_caches(give: Any, kind: str) -> None:
    qs, cache = queries(2, 3), keys(ENTRIES, ROWS)
    lengths, starts, entries, options = [20, 31], [0, 0], [0, 1], {}
    if "entries" in kind:
        entries = [2, 0]
        options["cache_batch_idx"] = int32(*entries)
    if "leftpad" in kind:
        starts = [3, 7]
        options["cache_leftpad"] = int32(*starts)
    given = cache
    if "pages" in kind:
        given = cache.unflatten(1, (ROWS // PAGE, PAGE)).flatten(0, 1).flip(0)
        options["page_table"] = (11 - torch.arange(8, dtype=torch.int32)).reshape(2, 4)
    (q, qv), (k, v) = split(qs), split(given)
    if kind == "packed queries":
        q, qv = q.flatten(0, 1), qv.flatten(0, 1)
        options.update(cu_seqlens_q=int32(0, 3, 6), max_seqlen_q=3)
    call = flash3.flash_attn_with_kvcache
    out = call(give(q), give(k), give(v), qv=give(qv), cache_seqlens=int32(*lengths), causal=True, **options)
    own = [cache[entry, start:end] for entry, start, end in zip(entries, starts, lengths)]
    check(out.unflatten(0, (2, 3)) if kind == "packed queries" else out, qs, own, causal=True)


@pytest.mark.parametrize("kind", ["dense", "pages", "rotary"])
def test_appended_caches(give: Any, kind: str) -> None:
    qs, cache, new = queries(2, 3), keys(2, ROWS), keys(2, 2)
    (q, qv), (new_k, new_v) = split(qs), split(new)
    given, options = cache.clone(), {}
    if kind == "pages":
        given = cache.unflatten(1, (ROWS // PAGE, PAGE)).flatten(0, 1).flip(0)
        options["page_table"] = (7 - torch.arange(8, dtype=torch.int32)).reshape(2, 4)
    if kind == "rotary":
        turns = torch.arange(ROWS)[:, None] * torch.linspace(0.1, 1, ROPE // 2)
        cos, sin = turns.cos().half(), turns.sin().half()
        options.update(rotary_cos=cos, rotary_sin=sin)
    k, v = map(give, split(given))
    out = flash3.flash_attn_with_kvcache(
        give(q), k, v, give(new_k), give(new_v), qv=give(qv), cache_seqlens=int32(9, 20), causal=True, **options
    )
    if kind == "rotary":
        from fa2.rotary import apply_rotary_emb

        turned = [apply_rotary_emb(x, cos, sin, True, seqlen_offsets=int32(9, 20)) for x in (q, new_k)]
        qs, new = torch.cat((qv, turned[0]), -1), torch.cat((new_v, turned[1]), -1)
    own = [torch.cat((cache[b, :n], new[b])) for b, n in enumerate((9, 20))]
    check(out, qs, own, causal=True)
    written = torch.cat((v, k), -1)
    written = written.flip(0).unflatten(0, (2, 4)).flatten(1, 2) if kind == "pages" else written
    for b, n in enumerate((9, 20)):
        torch.testing.assert_close(written[b, : n + 2], own[b], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("cached", [False, True])
def test_head_dims_are_filled_up(cached: bool) -> None:
    qs, ks = queries(1, 3, dim=260 + 12), keys(1, 20, dim=260 + 12)
    (q, qv), (k, v) = split(qs, 260), split(ks, 260)
    call: Any = flash3.flash_attn_with_kvcache if cached else flash3.flash_attn_func
    out = call(q, k, v, qv=qv)
    wanted, _ = reference.attention(qs[0], ks[0], v[0])
    torch.testing.assert_close(out[0].double(), torch.from_numpy(wanted), atol=4e-3, rtol=2e-3)


def test_8_bits_with_one_factor(give: Any) -> None:
    qs, cache = queries(2, 3), keys(2, 20, dtype=torch.float8_e4m3fn)
    (q, qv), (k, v) = split(qs), split(cache)
    factor = torch.tensor([[0.5], [1.25]])
    out = flash3.flash_attn_with_kvcache(give(q), give(k), give(v), qv=give(qv), k_descale=factor, v_descale=factor)
    check(out, qs, [rows.double() * float(x) for rows, x in zip(cache, factor)])
    with pytest.raises(NotImplementedError, match="k_descale, v_descale = two tensors, must be one with qv"):
        flash3.flash_attn_with_kvcache(q, k, v, qv=qv, k_descale=factor, v_descale=factor.clone())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.float8_e4m3fn])
def test_a_gpu_computes_the_same(give: Any, dtype: Any) -> None:
    qs, cache, outs = queries(2, 3), keys(2, 20, dtype=dtype), []
    for device in ("cpu", "cuda"):
        (q, qv), (k, v) = split(qs.to(device)), split(cache.to(device))
        outs.append(flash3.flash_attn_with_kvcache(give(q), give(k), give(v), qv=give(qv), cache_seqlens=11, causal=True))
    torch.testing.assert_close(outs[1].cpu(), outs[0], atol=4e-3, rtol=2e-3)


def test_gradients_of_narrow_heads() -> None:
    tensors = [random(1, n, heads, dim, seed=dim).requires_grad_() for n, heads, dim in ((3, 2, 16), (9, 1, 16), (9, 1, 32), (3, 2, 32))]
    q, k, v, qv = tensors
    out = flash3.flash_attn_func(q, k, v, qv=qv)
    exact = [x.detach().double().requires_grad_() for x in tensors]
    scores = torch.einsum("bihd,bjgd->bhij", exact[0], exact[1]) + torch.einsum("bihd,bjgd->bhij", exact[3], exact[2])
    wanted = torch.einsum("bhij,bjgd->bihd", (scores * 48**-0.5).softmax(-1), exact[2])
    torch.testing.assert_close(out.double(), wanted, atol=4e-3, rtol=2e-3)
    weight = random(*out.shape, seed=5)
    for found, expected in zip(torch.autograd.grad((out * weight).sum(), tensors), torch.autograd.grad((wanted * weight).sum(), exact)):
        torch.testing.assert_close(found.double(), expected, atol=1e-2, rtol=1e-2)


def test_compilers_see_the_operator() -> None:
    (q, qv), (k, v) = split(queries(1, 3)), split(keys(1, 20))
    compiled = torch.compile(lambda *x: flash3.flash_attn_func(*x[:3], qv=x[3]), backend="aot_eager")
    assert torch.equal(compiled(q, k, v, qv), flash3.flash_attn_func(q, k, v, qv=qv))


def test_what_is_refused() -> None:
    (q, qv), (k, v) = split(queries(1, 3)), split(keys(1, 20))
    call = flash3.flash_attn_func
    with pytest.raises(fa2.InvalidRequest) as error:
        call(q, k, v[:, :, :, :64].bfloat16(), qv=qv[:, :2])
    lines = [line.strip() for line in str(error.value).split("\n")]
    assert lines[0] == "invalid request, 2 rules broken:"
    assert lines[1].startswith("qv.shape = (1, 2, 2, 256), must be (1, 3, 2, 64): as q, with v's columns")
    assert lines[2].startswith("v.dtype = torch.bfloat16, must be torch.float16, as k")
    with pytest.raises(fa2.InvalidRequest, match=r"v.shape = \(1, 19, 1, 256\), must be \(1, 20, 1, 256\): as k"):
        call(q, k, v[:, 1:], qv=qv)
    with pytest.raises(fa2.InvalidType, match="qv = 3, must be a PyTorch tensor"):
        call(q, k, v, qv=3)
    (q, qv), (k, v) = split(queries(1, 1, dim=1024), 512), split(keys(1, 1, dim=1024), 512)
    with pytest.raises(fa2.InvalidRequest, match=r"head_dim = 1024, must be(.|\n)*with qv it is that of q and of v together"):
        call(q, k, v, qv=qv)
    small = (q[..., :64].detach().requires_grad_(), k[..., :64], v)
    out = call(*small, qv=qv)
    assert torch.equal(out, call(small[0].detach(), *small[1:], qv=qv))
    with pytest.raises(fa2.InvalidRequest, match="head_dim = 576 and head_dim_v = 512, whose gradients"):
        out.sum().backward()
