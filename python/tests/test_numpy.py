"""The API on numpy arrays: numerics against float64, layouts, and rejected calls."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import reference

import fa2


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def qkv(seqlen_q: int = 24, seqlen_k: int = 40, heads: int = 4, heads_kv: int = 2, dim: int = 64) -> Any:
    k, v = random(2, seqlen_k, heads_kv, dim, seed=1), random(2, seqlen_k, heads_kv, dim, seed=2)
    return random(2, seqlen_q, heads, dim), k, v


def check(result: Any, expected: Any) -> None:
    out, lse = result
    assert out.dtype == np.float16
    assert lse.dtype == np.float32
    np.testing.assert_allclose(out.astype(np.float64), expected[0], atol=4e-3)
    np.testing.assert_allclose(lse, expected[1], rtol=1e-5, atol=1e-5)


CASES = {
    "full": ({}, {}),
    "causal": ({"causal": True}, {"mask": "bottom_right"}),
    "top_left": ({"causal": "top_left"}, {"mask": "top_left"}),
    "window": ({"window_size": (7, 3)}, {"window": (7, 3)}),
    "window that hides nothing": ({"window_size": (99, 99)}, {}),
    "causal window": ({"causal": True, "window_size": (7, 0)}, {"mask": "bottom_right", "window": (7, 0)}),
    "chunks": ({"attention_chunk": 9}, {"chunk": 9}),
    "causal chunks": ({"causal": True, "attention_chunk": 9}, {"mask": "bottom_right", "chunk": 9}),
    "chunk that hides nothing": ({"causal": True, "attention_chunk": 40}, {"mask": "bottom_right"}),
    "windows in chunks": ({"attention_chunk": 9, "window_size": (3, 2)}, {"chunk": 9, "window": (3, 2)}),
    "softcap": ({"softcap": 1.5}, {"softcap": 1.5}),
    "alibi": ({"alibi_slopes": np.float32([0.5, 0.25, 0.1, 0])}, {"slopes": [0.5, 0.25, 0.1, 0]}),
    "sinks": ({"sinks": np.array([1.0, -1.0, 3.0, -np.inf])}, {"sinks": [1.0, -1.0, 3.0, -np.inf]}),
}


@pytest.mark.parametrize("name", CASES)
def test_variants_against_float64(name: str) -> None:
    given, meant = CASES[name]
    tensors = qkv()
    check(fa2.attention(*tensors, return_lse=True, **given), reference.batched(*tensors, **meant))


def test_an_output_of_float32_is_not_rounded() -> None:
    rounded = fa2.attention(*qkv())
    out = np.full(rounded.shape, np.nan, np.float32)
    assert fa2.attention(*qkv(), out=out) is out
    assert (out.astype(np.float16) == rounded).all()
    assert (out != rounded).mean() > 0.9


def test_a_row_that_sees_no_key_is_zero_with_an_infinite_lse() -> None:
    tensors = qkv(seqlen_q=40, seqlen_k=24)
    out, lse = fa2.attention(*tensors, causal=True, return_lse=True)
    assert (out[:, :16] == 0).all()
    assert np.isposinf(lse[:, :, :16]).all()
    check((out, lse), reference.batched(*tensors, mask="bottom_right"))


def test_views_of_any_strides() -> None:
    packed = random(2, 24, 3, 4, 64)
    q, k, v = packed[:, :, 0], packed[:, :, 1], packed[:, ::-1, 2]
    expected = fa2.attention(*(np.ascontiguousarray(x) for x in (q, k, v)))
    np.testing.assert_array_equal(fa2.attention(q, k, v), expected)
    gaps = np.ascontiguousarray(q.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)
    assert gaps.strides[-1] != gaps.itemsize
    np.testing.assert_array_equal(fa2.attention(gaps, k, v), expected)


def test_out_is_written_and_returned() -> None:
    q, k, v = qkv()
    out = np.empty_like(q)
    assert fa2.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out, fa2.attention(q, k, v))


def test_packed_sequences_are_each_their_own() -> None:
    cu_q, cu_k = np.int32([0, 5, 5, 21]), np.int32([0, 9, 12, 40])
    q, k, v = random(24, 4, 64), random(40, 2, 64, seed=1), random(40, 2, 64, seed=2)
    out, lse = fa2.attention(
        q, k, v, causal=True, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=16, max_seqlen_k=28, return_lse=True
    )
    assert lse.shape == (4, 24)
    assert (out[21:] == 0).all(), "rows of no sequence"
    for b in range(3):
        rows, keys = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        expected = reference.attention(q[rows], k[keys], v[keys], mask="bottom_right")
        check((out[rows], lse[:, rows]), expected)


def test_pages_are_the_keys_they_hold() -> None:
    q, k, v = qkv(seqlen_q=3, seqlen_k=32)
    wide = np.int32([[5, 0, 3, 6, -1, -1], [1, 4, 7, 2, -1, -1]])
    table = wide[:, :4]  # rows need not be adjacent
    k_pages, v_pages = np.zeros((8, 8, 2, 64), np.float16), np.zeros((8, 8, 2, 64), np.float16)
    for pages, rows in ((k_pages, k), (v_pages, v)):
        pages[table.ravel()] = rows.reshape(8, 8, 2, 64)
    used = np.int32([32, 19])
    out = fa2.attention(q, k_pages, v_pages, causal=True, page_table=table, seqused_k=used)
    for b in range(2):
        n = used[b]
        expected, _ = reference.attention(q[b], k[b, :n], v[b, :n], mask="bottom_right")
        np.testing.assert_allclose(out[b].astype(np.float64), expected, atol=4e-3)
    with pytest.raises(fa2.InvalidRequest, match="contiguous rows"):
        fa2.attention(q, k_pages, v_pages, page_table=wide[:, ::2], seqused_k=used)


def test_dropout_keeps_the_mask_of_its_state() -> None:
    q, k, v = qkv()
    state = np.int64([12, 34])
    once = fa2.attention(q, k, v, dropout_p=0.5, dropout_state=state)
    np.testing.assert_array_equal(once, fa2.attention(q, k, v, dropout_p=0.5, dropout_state=state))
    assert (once != fa2.attention(q, k, v, dropout_p=0.5, dropout_state=np.int64([12, 35]))).any()


def test_bfloat16_by_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensors = tuple(x.astype(ml_dtypes.bfloat16) for x in qkv())
    out = fa2.attention(*tensors)
    assert out.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(out.astype(np.float64), reference.batched(*tensors)[0], atol=2e-2)


def test_append_then_attention_then_merge() -> None:
    q, k, v = qkv(seqlen_q=1, seqlen_k=16)
    k_cache, v_cache = np.zeros((2, 16, 2, 64), np.float16), np.zeros((2, 16, 2, 64), np.float16)
    assert fa2.append(k, v, k_cache, v_cache, np.zeros(2, np.int32)) is None
    np.testing.assert_array_equal(k_cache, k)
    parts = [fa2.attention(q, k[:, part], v[:, part], return_lse=True) for part in (slice(0, 9), slice(9, 16))]
    out, lse = fa2.merge(np.stack([o for o, _ in parts]), np.stack([x for _, x in parts]))
    check((out, lse), reference.batched(q, k_cache, v_cache))


def test_append_turns_queries_and_keys() -> None:
    q, k, v = qkv(seqlen_q=1, seqlen_k=1)
    angle = np.arange(8)[:, None] * np.linspace(0.1, 1, 32)[None]
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    k_cache, v_cache = np.zeros((2, 8, 2, 64), np.float16), np.zeros((2, 8, 2, 64), np.float16)
    turned = fa2.append(k, v, k_cache, v_cache, np.int32([3, 5]), q=q, rotary_cos=cos, rotary_sin=sin)
    for b, position in enumerate((3, 5)):
        for given, found in ((q[b, 0], turned[b, 0]), (k[b, 0], k_cache[b, position])):
            x, y = given[:, :32].astype(np.float64), given[:, 32:].astype(np.float64)
            c, s = cos[position], sin[position]
            np.testing.assert_allclose(found, np.concatenate([x * c - y * s, x * s + y * c], -1), atol=4e-3)


def test_errors_say_what_is_wrong() -> None:
    q, k, v = qkv()
    with pytest.raises(fa2.InvalidRequest, match=r"k.shape = \(2, 40, 2, 32\), must be \(2, 40, 2, 64\)") as caught:
        fa2.attention(q, k[..., :32], v)
    assert isinstance(caught.value, fa2.Error) and isinstance(caught.value, ValueError)
    with pytest.raises(TypeError, match="float16 or bfloat16"):
        fa2.attention(q.astype(np.float32), k, v)
    with pytest.raises(fa2.InvalidRequest, match="pad_head_dim"):
        fa2.attention(q[..., :60], k[..., :60], v[..., :60])
    with pytest.raises(fa2.InvalidRequest, match="heads"):
        fa2.attention(q[:, :, :3], k, v)
    with pytest.raises(fa2.InvalidRequest, match="max_seqlen_q"):
        fa2.attention(q[0], k[0], v[0], cu_seqlens_q=np.int32([0, 24]), cu_seqlens_k=np.int32([0, 40]))
    with pytest.raises(fa2.InvalidRequest, match="int32"):
        fa2.attention(q, k, v, seqused_k=np.int64([1, 2]))
    with pytest.raises(fa2.InvalidRequest, match="window_size"):
        fa2.attention(q, k, v, window_size=(-2, 0))
    with pytest.raises(fa2.InvalidRequest, match="dropout"):
        fa2.attention(q, k, v, dropout_p=1.5)
    with pytest.raises(TypeError, match="numpy"):
        fa2.attention([1], k, v)


def test_padded_head_dims() -> None:
    q, k, v = (x[..., :59] for x in qkv())
    padded = (fa2.pad_head_dim(x) for x in (q, k, v))
    out = fa2.attention(*padded, softmax_scale=59**-0.5)[..., :59]
    np.testing.assert_allclose(out.astype(np.float64), reference.batched(q, k, v)[0], atol=4e-3)


def test_explain_names_the_kernels() -> None:
    q, k, v = qkv()
    assert len(fa2.explain(q, k, v, causal=True)["kernels"]) == 1
    assert fa2.explain(q, k, v, causal=True)["kernels"][0]["config_origin"] == "heuristic"


def test_import_needs_no_torch_and_no_numpy() -> None:
    code = "import sys, fa2; assert not {'torch', 'numpy'} & set(sys.modules); print(fa2.__version__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == fa2.__version__
