"""No call reads or writes outside its tensors, or misreads an object that is no array as one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import fa2

f16, f32, i32 = np.float16, np.float32, np.int32


def zeros(*shape: int, dtype: Any = f16) -> Any:
    return np.zeros(shape, dtype)


def append_arrays(**changed: Any) -> dict[str, Any]:
    arrays = {
        "k": zeros(2, 3, 2, 16),
        "v": zeros(2, 3, 2, 16),
        "k_cache": zeros(2, 8, 2, 16),
        "v_cache": zeros(2, 8, 2, 16),
        "cache_seqlens": i32([0, 5]),
    }
    return {**arrays, **changed}


def merge_arrays(**changed: Any) -> dict[str, Any]:
    arrays = {
        "out_parts": zeros(3, 2, 64, 2, 16),
        "lse_parts": zeros(3, 2, 2, 64, dtype=f32),
        "out": zeros(2, 64, 2, 16),
    }
    return {**arrays, **changed}


ROTARY = dict(rotary_cos=zeros(9, 8, dtype=f32), rotary_sin=zeros(9, 8, dtype=f32))

APPENDS = {
    "v_cache of another size": (dict(v_cache=zeros(1, 2, 2, 16)), "v_cache.shape = (1, 2, 2, 16), must be (2, 8, 2, 16)"),
    "a cache of fewer heads": (dict(k_cache=zeros(2, 8, 1, 16)), "k_cache.shape = (2, 8, 1, 16), must be (2, 8, 2, 16)"),
    "a cache of fewer columns": (dict(v_cache=zeros(2, 8, 2, 8)), "v_cache.shape = (2, 8, 2, 8), must be (2, 8, 2, 16)"),
    "more sequences than rows": (dict(cache_seqlens=i32([0, 1, 2])), "cache_seqlens.shape = (3), must be (2) = (batch)"),
    "a short v": (dict(v=zeros(2, 2, 2, 16)), "v.shape = (2, 2, 2, 16), must be (2, 3, 2, 16)"),
    "a short cache_batch_idx": (dict(cache_batch_idx=i32([0])), "cache_batch_idx.shape = (1), must be (2)"),
    "a short page table": (dict(page_table=zeros(1, 4, dtype=i32)), "page_table.shape = (1, 4), must be (2, 4)"),
    "short borders": (
        dict(k=zeros(6, 2, 16), v=zeros(6, 2, 16), cu_seqlens_new=i32([0, 6])),
        "cu_seqlens_new.shape = (2), must be (3) = (batch + 1)",
    ),
    "queries of fewer sequences": (dict(q=zeros(1, 3, 2, 16), **ROTARY), "q.shape = (1, 3, 2, 16), must be (2, 3, 2, 16)"),
    "a short rotary_sin": (dict(ROTARY, rotary_sin=zeros(4, 8, dtype=f32)), "rotary_sin.shape = (4, 8), must be (9, 8)"),
    "another dtype": (dict(v=zeros(2, 3, 2, 16, dtype=f32)), "v.dtype = float32, must be float16 or bfloat16"),
    "a cache that is read-only": (dict(k_cache=np.broadcast_to(f16(0), (2, 8, 2, 16))), "k_cache = read-only, must be writable"),
}

MERGES = {
    "out of one row": (dict(out=zeros(2, 1, 2, 16)), "out.shape = (2, 1, 2, 16), must be (2, 64, 2, 16)"),
    "lse_parts of one row": (dict(lse_parts=zeros(3, 2, 2, 1, dtype=f32)), "lse_parts.shape = (3, 2, 2, 1), must be (3, 2, 2, 64)"),
    "fewer lse_parts": (dict(lse_parts=zeros(2, 2, 2, 64, dtype=f32)), "lse_parts.shape = (2, 2, 2, 64), must be (3, 2, 2, 64)"),
    "lse_parts without a dimension": (dict(lse_parts=np.zeros((), f32)), "lse_parts.shape = (), must be (parts, batch,"),
    "another dtype": (dict(out_parts=zeros(3, 2, 64, 2, 16, dtype=np.float64)), "out_parts.dtype = float64, must be float16, bfloat16 or float32"),
    "no part": (dict(out_parts=zeros(0, 2, 64, 2, 16), lse_parts=zeros(0, 2, 2, 64, dtype=f32)), "parts = 0, must be 1"),
}


def refused(function: Any, arrays: dict[str, Any], message: str) -> None:
    before = {name: np.array(x) for name, x in arrays.items()}
    with pytest.raises(fa2.InvalidRequest, match=re.escape(message)):
        function(**arrays)
    for name, x in arrays.items():
        np.testing.assert_array_equal(x, before[name])


@pytest.mark.parametrize("name", APPENDS)
def test_append_compares_every_shape(name: str) -> None:
    changed, message = APPENDS[name]
    refused(fa2.append, append_arrays(**changed), message)


@pytest.mark.parametrize("name", MERGES)
def test_merge_compares_every_shape(name: str) -> None:
    changed, message = MERGES[name]
    refused(fa2.merge, merge_arrays(**changed), message)


def test_attention_compares_tables() -> None:
    q, k = zeros(2, 3, 2, 16), zeros(2, 5, 2, 16)
    for name, table in (
        ("seqused_k", zeros(2, 0, dtype=i32)),
        ("seqused_q", i32([1])),
        ("page_table", zeros(2, 2, dtype=i32)[:1]),
        ("alibi_slopes", zeros(1, 2, dtype=f32)),
        ("sinks", zeros(3, dtype=f32)),
    ):
        with pytest.raises(fa2.InvalidRequest, match=rf"{name}.shape = \("):
            fa2.attention(q, k, k, **{name: table})
    with pytest.raises(fa2.InvalidRequest, match=r"cu_seqlens_q.shape = \(2\), must be \(3\)"):
        fa2.attention(q[0], k, k, cu_seqlens_q=i32([0, 3]), max_seqlen_q=3)
    with pytest.raises(fa2.InvalidRequest, match="heads_kv = 0, must be at least 1"):
        fa2.attention(q, k[:, :, :0], k[:, :, :0])


def test_a_longest_sequence_beyond_the_tensors_reads_nothing_more() -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, n, 2, 16)).astype(f16) for n in (3, 8, 8))
    used = i32([8, 6])
    expected = fa2.attention(q, k, v, seqused_k=used)
    longest = dict(max_seqlen_q=10**6, max_seqlen_k=10**6)
    np.testing.assert_array_equal(fa2.attention(q, k, v, seqused_k=used, **longest), expected)
    pages = [x.reshape(4, 4, 2, 16) for x in (k, v)]
    table = i32([[0, 1], [2, 3]])
    found = fa2.attention(q, *pages, page_table=table, seqused_k=used, **longest)
    np.testing.assert_allclose(found.astype(f32), expected.astype(f32), atol=2e-3)


def test_packed_calls_without_a_query_are_empty() -> None:
    cu_q, cu_k, k = i32([0, 0, 0]), i32([0, 3, 5]), zeros(5, 2, 16)
    tables = dict(cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=0, max_seqlen_k=3)
    out, lse = fa2.attention(zeros(0, 4, 16), k, k, return_lse=True, **tables)
    assert out.shape == (0, 4, 16)
    assert lse.shape == (4, 0)


def test_big_endian_arrays_are_refused() -> None:
    q = zeros(1, 3, 2, 16)
    for swapped in (q.astype(">f2"), q.astype(">f2").swapaxes(1, 3)):
        with pytest.raises(fa2.InvalidRequest, match="byte order = >, must be native"):
            fa2.attention(swapped, q, q)
    with pytest.raises(fa2.InvalidRequest, match="byte order"):
        fa2.append(**append_arrays(cache_seqlens=np.array([0, 5], ">i4")))


def test_masked_arrays_are_refused() -> None:
    q = zeros(1, 3, 2, 16)
    masked = np.ma.masked_array(q, mask=True)
    for tensors in ((masked, q, q), (q, q, masked), (q, masked.swapaxes(1, 3), q)):
        with pytest.raises(fa2.InvalidRequest, match="must have no mask"):
            fa2.attention(*tensors)
    with pytest.raises(fa2.InvalidRequest, match="must have no mask"):
        fa2.attention(q, q, q, sinks=np.ma.masked_array([1.0, 2.0], mask=True))


def test_read_only_arrays_are_read_and_never_written() -> None:
    q = zeros(1, 3, 2, 16)
    constant = bytes(q.nbytes)
    frozen = np.frombuffer(constant, f16).reshape(q.shape)
    assert fa2.attention(frozen, frozen, frozen).shape == q.shape
    with pytest.raises(fa2.InvalidRequest, match="out = read-only, must be writable"):
        fa2.attention(q, q, np.ones_like(q), out=frozen)
    with pytest.raises(fa2.InvalidRequest, match="out = read-only"):
        fa2.merge(zeros(1, 1, 3, 2, 16), zeros(1, 1, 2, 3, dtype=f32), out=frozen)
    assert constant == bytes(q.nbytes)


def test_things_that_are_no_tensors_are_type_errors() -> None:
    q = zeros(1, 3, 2, 16)
    for wrong in (None, [1], "text", 1.5):
        for tensors in ((wrong, q, q), (q, wrong, q), (q, q, wrong)):
            with pytest.raises(TypeError, match="must be a PyTorch tensor or a numpy array"):
                fa2.attention(*tensors)
        with pytest.raises(TypeError, match="out_parts = "):
            fa2.merge(wrong, q)
    with pytest.raises(fa2.InvalidRequest, match="v_cache = None, must be a PyTorch tensor or a numpy array"):
        fa2.append(**append_arrays(v_cache=None))
