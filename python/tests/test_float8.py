"""8-bit keys and values of numpy: numerics against float64, and rejected calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference

import fa2

ml_dtypes = pytest.importorskip("ml_dtypes")
E4M3 = ml_dtypes.float8_e4m3fn
K_FACTORS = np.float32([[0.5, 1.25], [1.0, 0.25]])
V_FACTORS = np.float32([[3.0, 0.5], [0.125, 1.0]])


def random(*shape: int, seed: int = 0, dtype: Any = np.float16) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32).astype(dtype)


def qkv(seqlen_q: int = 24, seqlen_k: int = 40, dim: int = 64) -> Any:
    """Returns q of 4 heads, k and v of 2."""
    k, v = (random(2, seqlen_k, 2, dim, seed=seed, dtype=E4M3) for seed in (1, 2))
    return random(2, seqlen_q, 4, dim), k, v


def real(rows: Any, factors: Any) -> Any:
    """Returns the numbers that rows (batch, seqlen, heads_kv, dim) mean."""
    return rows.astype(np.float64) * np.asarray(factors, np.float64)[:, None, :, None]


def check(result: Any, expected: Any) -> None:
    out, lse = result
    assert out.dtype == np.float16 and lse.dtype == np.float32
    np.testing.assert_allclose(out.astype(np.float64), expected[0], atol=4e-3, rtol=2e-3)
    np.testing.assert_allclose(lse, expected[1], rtol=1e-5, atol=1e-5)


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "full": ({}, {}),
    "causal": ({"causal": True}, {"mask": "bottom_right"}),
    "window": ({"window_size": (7, 3)}, {"window": (7, 3)}),
    "softcap": ({"softcap": 1.5}, {"softcap": 1.5}),
    "alibi": ({"alibi_slopes": np.float32([0.5, 0.25, 0.1, 0])}, {"slopes": [0.5, 0.25, 0.1, 0]}),
    "sinks": ({"sinks": np.array([1.0, -1.0, 3.0, -np.inf])}, {"sinks": [1.0, -1.0, 3.0, -np.inf]}),
}


@pytest.mark.parametrize("name", CASES)
def test_variants_against_float64(name: str) -> None:
    given, meant = CASES[name]
    q, k, v = qkv()
    found = fa2.attention(q, k, v, k_descale=K_FACTORS, v_descale=V_FACTORS, return_lse=True, **given)
    check(found, reference.batched(q, real(k, K_FACTORS), real(v, V_FACTORS), **meant))


@pytest.mark.parametrize("rows", [3, 40])
def test_factors_have_any_strides_and_are_1_if_absent(rows: int) -> None:
    q, k, v = qkv(seqlen_q=rows)
    one = np.ones((2, 2))
    check(fa2.attention(q, k, v, return_lse=True), reference.batched(q, real(k, one), real(v, one)))
    for factors in (np.broadcast_to(np.float32(0.75), (2, 2)), np.float32([[0.5, 2], [1, 3]])[:, ::-1], K_FACTORS.T):
        found = fa2.attention(q, k, v, k_descale=factors, v_descale=factors.T, return_lse=True)
        check(found, reference.batched(q, real(k, factors), real(v, factors.T)))


def test_keys_and_values_have_head_dims_of_their_own() -> None:
    q, k, _ = qkv()
    v = random(2, 40, 2, 48, seed=3, dtype=E4M3)
    found = fa2.attention(q, k, v, v_descale=V_FACTORS, return_lse=True)
    check(found, reference.batched(q, real(k, np.ones((2, 2))), real(v, V_FACTORS)))


def test_packed_sequences_are_each_their_own() -> None:
    cu_q, cu_k = np.int32([0, 5, 21]), np.int32([0, 9, 40])
    q, k, v = random(21, 4, 64), *(random(40, 2, 64, seed=seed, dtype=E4M3) for seed in (1, 2))
    lengths = dict(cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=16, max_seqlen_k=31)
    out, lse = fa2.attention(q, k, v, causal=True, k_descale=K_FACTORS, v_descale=V_FACTORS, return_lse=True, **lengths)
    for b in range(2):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        own = real(k[None, keys], K_FACTORS[b : b + 1])[0], real(v[None, keys], V_FACTORS[b : b + 1])[0]
        check((out[rows], lse[:, rows]), reference.attention(q[rows], *own, mask="bottom_right"))


@pytest.mark.parametrize("page", [1, 8])
def test_pages_are_the_keys_they_hold(page: int) -> None:
    q, k, v = qkv(seqlen_q=3, seqlen_k=32)
    table = np.random.default_rng(page).permutation(64 // page).astype(np.int32).reshape(2, -1)
    pages = [np.zeros((64 // page, page, 2, 64), E4M3) for _ in range(2)]
    for own, rows in zip(pages, (k, v)):
        own[table.ravel()] = rows.reshape(-1, page, 2, 64)
    used = np.int32([32, 19])
    options = dict(page_table=table, seqused_k=used, k_descale=K_FACTORS, v_descale=V_FACTORS)
    out, lse = fa2.attention(q, *pages, causal=True, return_lse=True, **options)
    for b, n in enumerate(used):
        own = real(k, K_FACTORS)[b, :n], real(v, V_FACTORS)[b, :n]
        check((out[b], lse[b]), reference.attention(q[b], *own, mask="bottom_right"))


def test_columns_with_gaps_are_copied_and_missing_ones_filled_up() -> None:
    q, k, v = qkv()
    expected = fa2.attention(q, k, v)
    wide = [np.repeat(x, 2, -1)[..., ::2] for x in (k, v)]
    assert wide[0].strides[-1] == 2
    np.testing.assert_array_equal(fa2.attention(q, *wide), expected)
    narrow = [x[..., :40] for x in (q, k, v)]
    padded = [fa2.pad_head_dim(x, 16) for x in narrow]
    assert [x.shape[-1] for x in padded] == [48] * 3 and padded[1].dtype == E4M3
    out = fa2.attention(*padded, softmax_scale=40**-0.5)
    one = np.ones((2, 2))
    expected, _ = reference.batched(narrow[0], real(narrow[1], one), real(narrow[2], one))
    np.testing.assert_allclose(out[..., :40].astype(np.float64), expected, atol=4e-3)
    with pytest.raises(fa2.InvalidRequest, match="multiple = 0, must be at least 1"):
        fa2.pad_head_dim(q, 0)


@pytest.mark.parametrize("page", [0, 4])
def test_append_divides_rounds_and_clamps(page: int) -> None:
    caches = [random(2, 16, 2, 64, seed=seed, dtype=E4M3) for seed in (1, 2)]
    new = [random(2, 3, 2, 64, seed=seed) for seed in (3, 4)]
    new[0][0, 0, 0, :3] = 1000, -np.inf, np.nan
    begins, factors = np.int32([5, 13]), (K_FACTORS, np.broadcast_to(np.float32(0.5), (2, 2)))
    given, table = [x.copy() for x in caches], None
    if page:
        given = [x.reshape(-1, page, 2, 64)[::-1].copy() for x in caches]
        table = np.arange(8, dtype=np.int32)[::-1].reshape(2, 4).copy()
    assert fa2.append(*new, *given, begins, page_table=table, k_descale=factors[0], v_descale=factors[1]) is None
    for cache, rows, factor, found in zip(caches, new, factors, given):
        for b, start in enumerate(begins):
            real_rows = rows[b].astype(np.float32) / factor[b, :, None]
            cache[b, start : start + 3] = np.clip(real_rows, -448, 448).astype(E4M3)
        found = found[::-1].reshape(cache.shape) if page else found
        same = found.view(np.uint8) == cache.view(np.uint8)
        assert (same | np.isnan(cache.astype(np.float32))).all() and (np.isnan(found.astype(np.float32)) == np.isnan(cache.astype(np.float32))).all()
    with pytest.raises(fa2.InvalidRequest, match="k_descale, v_descale: leave them out"):
        fa2.append(*new, *(x.astype(np.float16) for x in caches), begins, k_descale=K_FACTORS)
    with pytest.raises(fa2.InvalidRequest, match="v_cache.dtype = float16, must be float8_e4m3fn, as k_cache"):
        fa2.append(*new, caches[0], caches[1].astype(np.float16), begins)


def misaligned(x: Any) -> Any:
    memory = np.zeros(x.size + 32, E4M3)
    start = -memory.ctypes.data % 16 + 3
    return memory[start : start + x.size].reshape(x.shape)


ONLY = "must be float16, bfloat16 or float8_e4m3fn"
OTHER = "its bytes mean other numbers than those of float8_e4m3fn: convert them, do not view them"


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda q, k, v: (q, k, v.astype(np.float16)), ["v.dtype = float16, must be float8_e4m3fn, as k"]),
        (lambda q, k, v: (q, k.astype(np.float16), v), ["v.dtype = float8_e4m3fn, must be float16, as k"]),
        (lambda q, k, v: (q, k.astype(ml_dtypes.float8_e5m2), v), [f"k.dtype = float8_e5m2, {ONLY}", f"float8_e5m2: {OTHER}"]),
        (
            lambda q, k, v: (q, *(x.view(ml_dtypes.float8_e4m3fnuz) for x in (k, v))),
            [f"k.dtype = float8_e4m3fnuz, {ONLY}", f"v.dtype = float8_e4m3fnuz, {ONLY}", f"float8_e4m3fnuz: {OTHER}"],
        ),
        (
            lambda q, k, v: (q, k.view(np.uint8), v.view(np.uint8)),
            [f"k.dtype = uint8, {ONLY}", f"v.dtype = uint8, {ONLY}", "uint8: view bytes of float8_e4m3fn as that dtype: pass x.view(ml_dtypes.float8_e4m3fn)"],
        ),
        (
            lambda q, k, v: (q.astype(E4M3), k, v),
            ["q.dtype = float8_e4m3fn, must be float16 or bfloat16", "q: 8 bits are for k and v alone: pass q as float16 or bfloat16"],
        ),
        (
            lambda q, k, v: (q[..., :40], k[..., :40], v),
            ["head_dim = 40, must be a multiple of 16 with kv_type e4m3", "head_dim: fa2.pad_head_dim(x, 16) fills up q, k and v with zeros"],
        ),
        (lambda q, k, v: (q, misaligned(k), v), ["k = 0x"]),
    ],
)
def test_what_is_refused_says_what_came(change: Any, told: list[str]) -> None:
    with pytest.raises(fa2.InvalidRequest) as caught:
        fa2.attention(*change(*qkv()))
    lines = [line.strip() for line in str(caught.value).split("\n")][1:]
    assert len(lines) == len(told) and all(line.startswith(start) for line, start in zip(lines, told)), lines


def test_factors_that_do_not_fit_are_refused() -> None:
    q, k, v = qkv()
    for wrong, told in (
        (K_FACTORS.astype(np.float64), "k_descale.dtype = float64, must be float32"),
        (K_FACTORS[:1], r"k_descale.shape = \(1, 2\), must be \(2, 2\) = \(batch, heads_kv\)"),
        (np.ones((2, 4), np.float32), r"k_descale.shape = \(2, 4\), must be \(2, 2\)"),
        (0.5, "k_descale = 0.5, must be a PyTorch tensor or a numpy array"),
    ):
        with pytest.raises(fa2.InvalidRequest, match=told):
            fa2.attention(q, k, v, k_descale=wrong)
    with pytest.raises(fa2.InvalidRequest, match="k_descale, v_descale: leave them out, or pass k and v as float8_e4m3fn"):
        fa2.attention(q, k.astype(np.float16), v.astype(np.float16), v_descale=V_FACTORS)


def test_explain_names_the_type() -> None:
    q, k, v = qkv()
    assert fa2.explain(q, k, v)["problem"]["kv_type"] == "e4m3"
    with pytest.raises(fa2.InvalidRequest, match="gradients of 8-bit keys and values are not computed"):
        fa2.explain(q, k, v, backward=True)
