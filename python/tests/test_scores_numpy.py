"""Tests functions of scores of numpy arrays, without PyTorch."""

from __future__ import annotations

import math
from typing import Any

import fa2
import numpy as np
import pytest

BATCH, HEADS, ROWS = 2, 2, 24
rng = np.random.default_rng(0)
Q, K, V = (rng.standard_normal((BATCH, ROWS, HEADS, 16)).astype(np.float16) for _ in range(3))
TABLE = rng.standard_normal((HEADS, 2 * ROWS)).astype(np.float32)
WIDTHS = np.array([3, 9], dtype=np.int16)


def reference(score_mod: Any = lambda s, *_: s, mask_mod: Any = lambda b, h, q, k: k >= 0, bias: Any = lambda *_: 0) -> Any:
    q, k, v = (x.astype(np.float64).swapaxes(1, 2) for x in (Q, K, V))
    positions = np.meshgrid(*map(np.arange, (BATCH, HEADS, ROWS, ROWS)), indexing="ij")
    scores = score_mod(q @ k.swapaxes(2, 3) / 4 + bias(*positions), *positions)
    weights = np.where(mask_mod(*positions), np.exp(scores), 0)
    return (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(1, 2)


def assert_close(found: Any, expected: Any) -> None:
    assert isinstance(found, np.ndarray)
    assert np.abs(found - expected).max() < 2e-3 * np.abs(expected).max()


def test_functions_index_tables() -> None:
    table, widths = fa2.Table(TABLE), fa2.Table(WIDTHS)
    found = fa2.attention(Q, K, V, bias=lambda b, h, q, k: table[h, q - k] * 0.5, mask_mod=lambda b, h, q, k: abs(q - k) < widths[b])
    assert_close(found, reference(bias=lambda b, h, q, k: TABLE[h, q - k] * 0.5, mask_mod=lambda b, h, q, k: abs(q - k) < WIDTHS[b]))
    found = fa2.attention(Q, K, V, score_mod=lambda s, b, h, q, k: np.tanh(s) * 3)
    assert_close(found, reference(lambda s, *_: np.tanh(s) * 3))


def test_texts_capture_arrays_and_numbers() -> None:
    text = fa2.ScoreText("return score * gain() + table(at.head, at.key);", {"table": TABLE[:, ::2], "gain": np.float32(0.5)})
    assert_close(fa2.attention(Q, K, V, score_mod=text), reference(lambda s, b, h, q, k: s * 0.5 + TABLE[:, ::2][h, k]))
    assert fa2.explain(Q, K, V, score_mod=text)["texts"] == {"score_mod": text.text}


def test_arrays_as_a_bias() -> None:
    pair = rng.standard_normal((BATCH, HEADS, ROWS, ROWS)).astype(np.float32)
    hidden = rng.random((BATCH, 1, 1, ROWS)) < 0.3
    hidden[..., 0] = False
    for bias in (pair, pair[:, :1], pair[0], pair[0, 0], pair.astype(np.float16), pair[..., ::-1], pair.swapaxes(2, 3), pair[:, :, :1], pair[:1, :, :, :1], fa2.Table(pair)):
        added = np.broadcast_to(bias.array if isinstance(bias, fa2.Table) else bias, pair.shape)
        assert_close(fa2.attention(Q, K, V, bias=bias), reference(bias=lambda b, h, q, k: added[b, h, q, k]))  # noqa: B023
    assert_close(fa2.attention(Q, K, V, bias=~hidden), reference(mask_mod=lambda b, h, q, k: ~hidden[b, 0, 0, k]))
    table = fa2.Table(pair[0])
    assert fa2.explain(Q, K, V, bias=lambda b, h, q, k: table[h, q, k])["texts"] == {"bias": "return c0(at);"}
    assert fa2.explain(Q, K, V, bias=np.float32([[3]]))["texts"] == {"bias": "return bias_tensor();"}
    with pytest.raises(fa2.InvalidType, match=r"bias\.dtype = float64, must be .* cast it, with x\.astype\('float32'\)$"):
        fa2.attention(Q, K, V, bias=pair.astype(np.float64))
    with pytest.raises(fa2.InvalidRequest, match=r"bias\.shape = \(2, 2, 24, 23\), must have 2 to 4 dimensions"):
        fa2.attention(Q, K, V, bias=pair[..., 1:])


def test_errors() -> None:
    with pytest.raises(fa2.InvalidType, match="pass arrays of numpy as fa2.Table"):
        fa2.attention(Q, K, V, bias=lambda b, h, q, k: TABLE[h, k])
    with pytest.raises(fa2.InvalidType, match=r"captures.x.dtype = float64, must be"):
        fa2.attention(Q, K, V, bias=fa2.ScoreText("return x(at.key);", {"x": np.zeros(9)}))
    with pytest.raises(fa2.InvalidType, match=r"captures.x = array of byte order"):
        fa2.attention(Q, K, V, bias=fa2.ScoreText("return x(at.key);", {"x": np.zeros(9, ">f4")}))
    with pytest.raises(fa2.InvalidType, match=r"query = ndarray, must be a PyTorch tensor"):
        fa2.flex_attention(Q, K, V)
    assert math.isfinite(float(fa2.attention(Q, K, V, bias=lambda b, h, q, k: k * 0.0).max()))
