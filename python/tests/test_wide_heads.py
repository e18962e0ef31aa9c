"""Head dims above 256, and latents whose values are columns of their keys, against float64; gradients that are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import reference

import fa2
from fa2._padding import MOST_COLUMNS, MOST_WITH_GRADIENTS


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16)


def check(result: Any, expected: Any) -> None:
    np.testing.assert_allclose(result[0].astype(np.float64), expected[0], atol=4e-3, rtol=2e-3)
    np.testing.assert_allclose(result[1], expected[1], rtol=1e-5, atol=1e-5)


def test_heads_of_512_columns() -> None:
    q, k, v = random(1, 5, 2, 512), random(1, 40, 1, 512, seed=1), random(1, 40, 1, 512, seed=2)
    check(fa2.attention(q, k, v, causal=True, return_lse=True), reference.batched(q, k, v, mask="bottom_right"))
    assert fa2.explain(q, k, v)["problem"]["values_in_keys"] is False


def test_values_that_are_columns_of_keys_are_found() -> None:
    q, k = random(2, 3, 2, 576), random(2, 40, 1, 576, seed=1)
    v = k[..., :512]
    check(fa2.attention(q, k, v, causal=True, return_lse=True), reference.batched(q, k, v, mask="bottom_right"))
    assert fa2.explain(q, k, v)["problem"]["values_in_keys"] is True
    for other in (k[..., 64:], v.copy()):
        assert fa2.explain(q, k, other)["problem"]["values_in_keys"] is False
    assert "values_in_keys" in str(fa2.explain(q, k, v))


def most_of(error: Any, field: str) -> int:
    """Returns the end of the range of a field's rule."""
    found = re.search(rf"{field} = \d+, must be a multiple of 8 in 8\.\.(\d+)", str(error.value))
    assert found is not None, error.value
    return int(found[1])


def test_limits_are_those_of_the_library() -> None:
    wide = random(1, 1, 1, 800)
    with pytest.raises(fa2.InvalidRequest) as error:
        fa2.attention(wide, wide, wide)
    assert min(most_of(error, "head_dim"), most_of(error, "head_dim_v")) == MOST_COLUMNS
    with pytest.raises(fa2.InvalidRequest) as error:
        fa2.explain(*(random(1, 1, 1, 264),) * 3, backward=True)
    assert most_of(error, "head_dim") == most_of(error, "head_dim_v") == MOST_WITH_GRADIENTS


def test_gradients_are_refused_before_anything_runs() -> None:
    torch = pytest.importorskip("torch")
    from fa2 import flash_attn_interface as flash

    narrow, wide = (torch.zeros(1, 1, 1, dim, dtype=torch.float16) for dim in (64, 264))
    told = "requires_grad = True, must be False.*head_dim = {} and head_dim_v = {}, whose gradients are computed up to 256: .*no_grad"
    for q, k, v in ((wide, wide, narrow), (narrow, narrow, wide)):
        dims = told.format(q.shape[-1], v.shape[-1])
        for x in {q, k, v}:
            x.requires_grad_()
            with pytest.raises(fa2.InvalidRequest, match=dims):
                fa2.attention(q, k, v)
            x.requires_grad_(False)
    wide.requires_grad_()
    broken = torch.compile(lambda *x: fa2.attention(*x), backend="aot_eager")
    with pytest.raises(fa2.InvalidRequest, match="whose gradients"):
        broken(wide, wide, narrow)
    with pytest.raises(fa2.InvalidRequest, match="v.dtype = float32"):
        fa2.attention(wide, wide, wide.float())
    with pytest.raises(fa2.InvalidRequest, match="whose gradients"):
        flash.flash_attn_func(wide, wide, wide)
    with pytest.raises(fa2.InvalidRequest, match="whose gradients"):
        flash.flash_attn_qkvpacked_func(wide[:, :, None].expand(-1, -1, 3, -1, -1))
    with torch.no_grad():
        assert not fa2.attention(wide, wide, wide).requires_grad


def test_compilers_see_wide_heads() -> None:
    torch = pytest.importorskip("torch")
    q, k = (torch.from_numpy(random(1, n, 2, 272, seed=n)) for n in (3, 20))
    compiled = torch.compile(lambda q, k: fa2.attention(q, k, k[..., :64]), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k), fa2.attention(q, k, k[..., :64]))
