"""8-bit keys and values of PyTorch: fa2.attention, its operators, and FlashAttention-3's functions, against float64."""

from __future__ import annotations

from typing import Any

import pytest
import reference

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
from fa2 import flash_attn_3_interface as flash3  # noqa: E402

E4M3 = torch.float8_e4m3fn
FACTORS = {"k_descale": torch.tensor([[0.5, 1.25], [1.0, 0.25]]), "v_descale": torch.tensor([[3.0, 0.5], [0.125, 1.0]])}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
ENTRIES, ROWS = 3, 32


def random(*shape: int, seed: int = 0, dtype: Any = torch.bfloat16) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def qkv(rows: int = 24, dim: int = 64, dtype: Any = torch.bfloat16) -> Any:
    k, v = (random(2, 40, 2, dim, seed=seed, dtype=E4M3) for seed in (1, 2))
    return random(2, rows, 4, dim, dtype=dtype), k, v


def caches(dim: int = 64) -> Any:
    """Returns q of two sequences, and caches of three entries."""
    k, v = (random(ENTRIES, ROWS, 2, dim, seed=seed, dtype=E4M3) for seed in (1, 2))
    return random(2, 3, 4, dim, dtype=torch.float16), k, v


def expect(out: Any, q: Any, keys: Any, values: Any, factors: dict[str, Any] = FACTORS, causal: bool = False) -> None:
    """Checks the output, with each sequence's own keys and values of 8 bits."""
    assert out.dtype == q.dtype and out.shape == (*q.shape[:-1], values[0].shape[-1])
    tolerance = 2e-2 if q.dtype == torch.bfloat16 else 4e-3
    for b in range(len(q)):
        own = (rows.double() * factors[name][b].cpu().double()[:, None] for name, rows in (("k_descale", keys[b].cpu()), ("v_descale", values[b].cpu())))
        wanted, _ = reference.attention(q[b].cpu().double(), *own, mask="bottom_right" if causal else None)
        torch.testing.assert_close(out[b].cpu().double(), torch.from_numpy(wanted), atol=tolerance, rtol=tolerance)


def int32(*values: int, device: str = "cpu") -> Any:
    return torch.tensor(values, dtype=torch.int32, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 24])
def test_attention_against_float64(device: str, dtype: Any, rows: int) -> None:
    q, k, v = (x.to(device) for x in qkv(rows, dtype=dtype))
    factors = {name: x.to(device) for name, x in FACTORS.items()}
    expect(fa2.attention(q, k, v, causal=True, **factors), q, k, v, causal=True)
    swapped = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    out = fa2.attention(*swapped, causal=True, layout="bhsd", **factors)
    expect(out.transpose(1, 2), q, k, v, causal=True)


def test_one_factor_for_all_has_strides_of_0() -> None:
    q, k, v = qkv()
    one = torch.tensor(0.25).expand(2, 2)
    expect(fa2.attention(q, k, v, k_descale=one, v_descale=one), q, k, v, {"k_descale": one, "v_descale": one})


def test_tensors_read_the_same_without_the_exchange_api() -> None:
    from fa2 import _hooks

    k = random(2, 24, 3, 4, 64, dtype=E4M3)[:, :, 1].transpose(1, 2)
    assert _hooks.describe(k) == (k.data_ptr(), tuple(k.shape), k.stride(), 6, -2, False)
    for other in (torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz):
        assert _hooks.describe(k.view(other))[3] == -1


def test_gradients_are_refused_before_anything_runs() -> None:
    q, k, v = qkv()
    sinks = torch.zeros(4)
    for wanted in (q, k, v, sinks):
        wanted.requires_grad_()
        with pytest.raises(fa2.InvalidRequest, match="requires_grad = True, must be False.*float8_e4m3fn.*no_grad"):
            fa2.attention(q, k, v, sinks=sinks)
        with torch.no_grad():
            fa2.attention(q, k, v, sinks=sinks)
        wanted.requires_grad_(False)
    q.requires_grad_()
    with pytest.raises(fa2.InvalidType, match="v.dtype = bfloat16, must be float8_e4m3fn, as k"):
        fa2.attention(q, k, v.bfloat16())
    out, lse = flash3.flash_attn_func(q, k, v, return_attn_probs=True)  # as FlashAttention-3
    assert torch.equal(out, flash3.flash_attn_func(q.detach(), k, v))
    for result in (out, lse):
        with pytest.raises(fa2.InvalidRequest, match="requires_grad"):
            result.sum().backward()


def test_operators_and_compilers_see_the_dtype_of_q() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    q, k, v = qkv()
    eager = fa2.attention(q, k, v, **FACTORS)
    compiled = torch.compile(lambda *x: fa2.attention(*x, **FACTORS), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), eager)
    with FakeTensorMode() as mode:
        out = fa2.attention(*(mode.from_tensor(x) for x in (q, k, v)))
    assert (out.shape, out.stride(), out.dtype) == (eager.shape, eager.stride(), q.dtype)
    broken = torch.compile(lambda *x: fa2.attention(*x), backend="aot_eager")
    with pytest.raises(fa2.InvalidRequest, match="requires_grad"):
        broken(q.requires_grad_(), k, v)


def test_opcheck() -> None:
    from fa2._call import BLOCK_MAP, Options

    options = Options(**dict.fromkeys(Options._fields))._replace(
        mask=1, window_left=-1, window_right=-1, attention_chunk=0, batch_invariant=False, lse_base="natural", sm_margin=0, softcap=0.0, dropout_p=0.0, dropout_seed=0, dropout_offset=0, **FACTORS
    )
    # PyTorch's test_schema multiplies the operands, which it cannot with 8 bits.
    utils = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.fa2.forward, (*qkv(), *options[:BLOCK_MAP], True), test_utils=utils)
    q, k, v = qkv()
    with pytest.raises(fa2.InvalidRequest, match="requires_grad"):
        torch.ops.fa2.forward(q.requires_grad_(), k, v, *options[:BLOCK_MAP], True)


@pytest.mark.parametrize("device", DEVICES)
def test_version_3_dense_and_packed(device: str) -> None:
    q, k, v = (x.to(device) for x in qkv())
    factors = {name: x.to(device) for name, x in FACTORS.items()}
    expect(flash3.flash_attn_func(q, k, v, causal=True, **factors), q, k, v, causal=True)
    borders = [torch.arange(3, dtype=torch.int32, device=device) * n for n in (24, 40)]
    packed = (x.flatten(0, 1) for x in (q, k, v))
    out = flash3.flash_attn_varlen_func(*packed, *borders, 24, 40, causal=True, **factors)
    expect(out.unflatten(0, (2, 24)), q, k, v, causal=True)


def test_version_3_fills_up_head_dims() -> None:
    q, k, v = qkv(dim=40)
    expect(flash3.flash_attn_func(q, k, v[..., :20], **FACTORS), q, k, v[..., :20])
    q, k, v = caches(dim=40)
    expect(flash3.flash_attn_with_kvcache(q, k, v, cache_seqlens=20, **FACTORS), q, k[:, :20], v[:, :20])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["dense", "entries", "pages", "leftpad", "leftpad, entries", "leftpad, pages"])
def test_version_3_reads_caches(device: str, kind: str) -> None:
    q, k, v = (x.to(device) for x in caches())
    options: dict[str, Any] = {name: x.to(device) for name, x in FACTORS.items()}
    lengths, starts, entries = [20, 31], [0, 0], [0, 1]
    if "leftpad" in kind:
        starts = [3, 7]
        options["cache_leftpad"] = int32(*starts, device=device)
    if "entries" in kind:
        entries = [2, 0]
        options["cache_batch_idx"] = int32(*entries, device=device)
    given = k, v
    if "pages" in kind:
        given = tuple(x.unflatten(1, (4, 8)).flatten(0, 1).flip(0) for x in (k, v))
        options["page_table"] = (11 - torch.arange(8, dtype=torch.int32, device=device)).reshape(2, 4)
    out = flash3.flash_attn_with_kvcache(q, *given, cache_seqlens=int32(*lengths, device=device), causal=True, **options)
    rows = [(entry, slice(start, end)) for entry, start, end in zip(entries, starts, lengths)]
    expect(out, q, [k[x] for x in rows], [v[x] for x in rows], causal=True)


def stored(rows: Any, factors: Any) -> Any:
    """Returns rows (batch, new, heads_kv, dim) as a cache holds them."""
    return (rows.float() / factors[:, None, :, None]).clamp(-448, 448).to(E4M3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["dense", "entries", "pages", "leftpad", "padded head dim"])
def test_version_3_appends_to_caches(device: str, kind: str) -> None:
    dim = 40 if kind == "padded head dim" else 64
    q, k, v = (x.to(device) for x in caches(dim))
    new_k, new_v = (random(2, 3, 2, dim, seed=seed, dtype=torch.float16).to(device) for seed in (3, 4))
    new_k[0, 0, 0, :2] = torch.tensor([1000.0, -1000.0])  # k_descale 0.5: clamped
    options: dict[str, Any] = {name: x.to(device) for name, x in FACTORS.items()}
    starts, entries, given = [0, 0], [0, 1], (k.clone(), v.clone())
    if kind == "entries":
        entries = [2, 0]
        options["cache_batch_idx"] = int32(*entries, device=device)
    if kind == "leftpad":
        starts = [3, 7]
        options["cache_leftpad"] = int32(*starts, device=device)
    if kind == "pages":
        given = tuple(x.unflatten(1, (4, 8)).flatten(0, 1).flip(0) for x in (k, v))
        options["page_table"] = (11 - torch.arange(8, dtype=torch.int32, device=device)).reshape(2, 4)
    out = flash3.flash_attn_with_kvcache(q, *given, new_k, new_v, cache_seqlens=int32(9, 20, device=device), causal=True, **options)
    for cache, rows, name in ((k, new_k, "k_descale"), (v, new_v, "v_descale")):
        for entry, start, row in zip(entries, (9, 20), stored(rows, options[name])):
            cache[entry, start : start + 3] = row
    found = (x.flip(0).unflatten(0, (ENTRIES, 4)).flatten(1, 2) for x in given) if kind == "pages" else given
    for cache, wanted in zip(found, (k, v)):
        assert torch.equal(cache.view(torch.uint8), wanted.view(torch.uint8))
    seen = [(entry, slice(start, end)) for entry, start, end in zip(entries, starts, (12, 23))]
    expect(out, q, [k[x] for x in seen], [v[x] for x in seen], causal=True)


def test_version_3_refuses_what_it_does_not_read() -> None:
    q, k, v = caches()
    call = flash3.flash_attn_with_kvcache
    with pytest.raises(NotImplementedError, match="q_descale = given, must be left out on fa2: queries have 16 bits"):
        call(q, k, v, q_descale=torch.ones(2, 2))
    with pytest.raises(fa2.InvalidRequest, match="k_descale = given.*\n.*leave them out, or pass k and v as float8_e4m3fn"):
        call(q, k.half(), v.half(), k_descale=FACTORS["k_descale"])
    with pytest.raises(fa2.InvalidRequest, match="k_descale = given"):
        flash3.flash_attn_qkvpacked_func(torch.zeros(2, 8, 3, 2, 64, dtype=torch.float16), k_descale=FACTORS["k_descale"])
    with pytest.raises(fa2.InvalidType, match="k_cache.dtype = torch.float8_e5m2, must be float16, bfloat16 or float8_e4m3fn"):
        call(q, k.view(torch.float8_e5m2), v.view(torch.float8_e5m2))
    with pytest.raises(fa2.InvalidType, match="v_cache.dtype = float16, must be float8_e4m3fn, as k"):
        call(q, k, v.half())
    with pytest.raises(fa2.InvalidType, match="q: 8 bits are for k and v alone"):
        call(q.to(E4M3), k, v)
    with pytest.raises(fa2.InvalidType, match="k.dtype = float8_e4m3fn, must be float16 or bfloat16"):
        call(q, k, v, k[:2, :3], v[:2, :3], cache_seqlens=9)
