"""fa2.flex_attention() with functions that models use, forward and backward, beside PyTorch in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import flex_cases  # noqa: E402
import score_reference  # noqa: E402
from flex_cases import BATCH, HEADS, KEYS, MASKS, QUERIES, SCORES  # noqa: E402


def check(score_mod: Any, mask_mod: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    shapes = ((BATCH, HEADS, QUERIES, 16), (BATCH, HEADS, KEYS, 16), (BATCH, HEADS, KEYS, 16))
    tensors = [torch.randn(shape, generator=generator).half().requires_grad_() for shape in shapes]
    block_mask = None if mask_mod is None else fa2.create_block_mask(mask_mod, BATCH, HEADS, QUERIES, KEYS, "cpu")
    out, lse = fa2.flex_attention(*tensors, score_mod, block_mask, return_lse=True)
    expected, expected_lse = score_reference.attention(*(x.transpose(1, 2) for x in tensors), score_mod=score_mod, mask_mod=mask_mod)
    expected = expected.transpose(1, 2)
    seen = torch.isfinite(expected_lse)
    assert (lse[~seen] == -math.inf).all() and (out[~seen] == 0).all()
    assert score_reference.error(out, expected) < 2e-3
    assert score_reference.error(lse[seen], expected_lse[seen]) < 2e-3
    wanted = score_reference.gradients(expected, expected_lse, tensors)
    for found, exact in zip(score_reference.gradients(out, lse, tensors), wanted):
        assert score_reference.error(found, exact) < 6e-3


@pytest.mark.long
@pytest.mark.parametrize("name", SCORES)
def test_scores(name: str) -> None:
    check(SCORES[name], None)


@pytest.mark.long
@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    positions = torch.meshgrid(*map(torch.arange, (BATCH, HEADS, QUERIES, KEYS)), indexing="ij")
    assert 0 < MASKS[name](*positions).float().mean() < 1, "the mask hides some keys"
    check(None, MASKS[name])


def test_both() -> None:
    check(SCORES["graphormer"], MASKS["packed causal"])
    check(SCORES["softcap"], fa2.or_masks(MASKS["video"], MASKS["tree"]))


def test_the_table_of_cases_is_whole() -> None:
    assert (len(SCORES), len(MASKS)) == (26, 40)
    assert flex_cases.FRAMES * flex_cases.ROWS * flex_cases.COLUMNS == KEYS
