"""Tests masks that answer the same in blocks of queries and keys."""

from __future__ import annotations

from typing import Any

import fa2
import numpy as np
import pytest

QUERIES, KEYS = 200, 260
TABLE = np.array([[1, 0, 0, 1, 0], [0, 1, 1, 0, 0], [1, 1, 0, 0, 1], [0, 0, 0, 1, 1]], np.uint8)  # of 64 x 64
TEXT = "return blocks(at.query / 64, at.key / 64) != 0;"


def text_of(block: Any) -> fa2.ScoreText:
    return fa2.ScoreText(TEXT, {"blocks": TABLE}, mask_block=block)


def test_outputs_are_those_of_the_same_mask_without_blocks() -> None:
    random = np.random.default_rng(1)
    q = random.standard_normal((1, QUERIES, 2, 16)).astype(np.float16)
    k, v = (random.standard_normal((1, KEYS, 2, 16)).astype(np.float16) for _ in range(2))
    blocks = fa2.Table(TABLE)
    traced = fa2.score_text(mask_mod=lambda b, h, q, k: blocks[q // 64, k // 64] != 0, mask_block=(64, 64))
    assert traced.mask_block == (64, 64)
    plain = fa2.attention(q, k, v, mask_mod=fa2.ScoreText(TEXT, {"blocks": TABLE}))
    for mask in (text_of((64, 64)), text_of([32, 64]), traced):
        assert np.array_equal(fa2.attention(q, k, v, mask_mod=mask), plain)


def test_blocks_are_looked_into() -> None:
    sizes: dict[str, Any] = dict(seqlen_q=QUERIES, seqlen_k=KEYS)
    fa2.check_score_text(mask_mod=text_of((64, 32)), **sizes)
    with pytest.raises(fa2.InvalidRequest, match="mask_block = 128 x 64, must be blocks in which the mask is the same"):
        fa2.check_score_text(mask_mod=text_of((128, 64)), **sizes)


def test_what_is_refused() -> None:
    q = np.zeros((1, 8, 1, 16), np.float16)
    for block in (64, (64,), (64.0, 64), "64", (True, 64)):
        with pytest.raises(fa2.InvalidType, match="mask_mod.mask_block = .*, must be a tuple of two ints: queries and keys"):
            fa2.attention(q, q, q, mask_mod=text_of(block))
    with pytest.raises(fa2.InvalidRequest, match="mask_block.queries = -1, must be in 1.."):
        fa2.attention(q, q, q, mask_mod=text_of((-1, 64)))
    with pytest.raises(fa2.InvalidRequest, match=r"bias.mask_block = \(64, 64\), must be \(1, 1\): only a mask_mod has blocks"):
        fa2.attention(q, q, q, bias=fa2.ScoreText("return 1.0f;", mask_block=(64, 64)))
    with pytest.raises(fa2.InvalidRequest, match=r"score_mod.mask_block = \(64, 64\), must be"):
        fa2.score_text(score_mod=lambda s, b, h, q, k: s, mask_block=(64, 64))
