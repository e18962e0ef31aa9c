"""sm_margin, on numpy arrays and on PyTorch's tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fa2


def tensors(seqlen_q: int = 24, seqlen_k: int = 40, heads: int = 4, heads_kv: int = 2, dim: int = 32) -> Any:
    shapes = (2, seqlen_q, heads, dim), (2, seqlen_k, heads_kv, dim), (2, seqlen_k, heads_kv, dim)
    return [np.random.default_rng([i, *s]).standard_normal(s).astype(np.float16) for i, s in enumerate(shapes)]


def test_a_margin_of_sms_changes_nothing_but_the_launch() -> None:
    limited = fa2.attention(*tensors(seqlen_q=1), batch_invariant=True, sm_margin=1)
    assert (limited == fa2.attention(*tensors(seqlen_q=1), batch_invariant=True)).all()
    explanation = fa2.explain(*tensors(seqlen_q=1), sm_margin=1)
    assert explanation["problem"]["sm_margin"] == 1
    assert all(kernel["is_persistent"] for kernel in explanation["kernels"])
    for margin, rule in ((-1, "must be"), (2, "must be in 0..1: the device has 2 SMs"), (2**40, "must fit 32 bits")):
        with pytest.raises(fa2.InvalidRequest, match=f"sm_margin = {margin}, {rule}"):
            fa2.attention(*tensors(), sm_margin=margin)


class TestTorch:
    torch: Any

    @pytest.fixture(autouse=True)
    def import_torch(self) -> None:
        self.torch = pytest.importorskip("torch")

    def leaves(self) -> Any:
        return [self.torch.from_numpy(x).requires_grad_() for x in tensors()]

    def test_flash_attention_3_has_the_margin(self) -> None:
        from fa2.flash_attn_3_interface import flash_attn_func

        q, k, v = (x.detach() for x in self.leaves())
        assert (flash_attn_func(q, k, v, sm_margin=1) == flash_attn_func(q, k, v)).all()
        with pytest.raises(fa2.InvalidRequest, match="sm_margin = 7, must be in 0..1"):
            flash_attn_func(q, k, v, sm_margin=7)
