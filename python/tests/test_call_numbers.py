"""lse_base, sm_margin and the largest logits, on numpy arrays and on PyTorch's tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fa2


def tensors(seqlen_q: int = 24, seqlen_k: int = 40, heads: int = 4, heads_kv: int = 2, dim: int = 32) -> Any:
    shapes = (2, seqlen_q, heads, dim), (2, seqlen_k, heads_kv, dim), (2, seqlen_k, heads_kv, dim)
    return [np.random.default_rng([i, *s]).standard_normal(s).astype(np.float16) for i, s in enumerate(shapes)]


def scores(q: Any, k: Any) -> Any:
    """Returns the scaled scores (batch, heads, queries, keys) in float64."""
    k = k.repeat(q.shape[2] // k.shape[2], 2).astype(np.float64)
    return np.einsum("bihd,bjhd->bhij", q.astype(np.float64), k) / math.sqrt(q.shape[-1])


def test_base_two_is_the_natural_lse_times_log2_e() -> None:
    out, natural = fa2.attention(*tensors(), causal=True, return_lse=True)
    same, two = fa2.attention(*tensors(), causal=True, return_lse=True, lse_base="two")
    assert (out == same).all()
    np.testing.assert_allclose(two, natural / math.log(2), rtol=1e-6)
    with pytest.raises(fa2.InvalidRequest, match='lse_base = .ten., must be "natural" or "two"'):
        fa2.attention(*tensors(), lse_base="ten")  # type: ignore[call-overload]
    with pytest.raises(fa2.InvalidRequest, match='lse_base = 2, must be "natural" or "two"'):
        fa2.attention(*tensors(), lse_base=2)  # type: ignore[call-overload]


def test_merge_takes_parts_in_base_two() -> None:
    q, k, v = tensors()
    whole, lse = fa2.attention(q, k, v, return_lse=True, lse_base="two")
    parts = [fa2.attention(q, k[:, at], v[:, at], return_lse=True, lse_base="two") for at in (slice(15), slice(15, 40))]
    merged, merged_lse = fa2.merge(*(np.stack(x) for x in zip(*parts)), lse_base="two")
    np.testing.assert_allclose(merged.astype(np.float64), whole.astype(np.float64), atol=4e-3)
    np.testing.assert_allclose(merged_lse, lse, rtol=1e-5)
    with pytest.raises(fa2.InvalidRequest, match='lse_base = .e., must be "natural" or "two"'):
        fa2.merge(*(np.stack(x) for x in zip(*parts)), lse_base="e")  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_largest_logits_of_each_sequence_and_head(layout: Any) -> None:
    q, k, v = tensors()
    given = (q, k, v) if layout == "bshd" else (x.swapaxes(1, 2) for x in (q, k, v))
    out, logits = fa2.attention(*given, return_max_logits=True, layout=layout)
    np.testing.assert_allclose(logits, scores(q, k).max((2, 3)), rtol=1e-5)
    expected = fa2.attention(q, k, v)
    assert ((out if layout == "bshd" else out.swapaxes(1, 2)) == expected).all()
    buffer = np.full((2, 4), np.nan, np.float32)
    _, lse, same = fa2.attention(q, k, v, return_lse=True, return_max_logits=True, max_logits=buffer)
    assert same is buffer
    assert (buffer == logits).all()
    assert lse.shape == (2, 4, 24)
    assert fa2.explain(q, k, v, max_logits=buffer)["problem"]["max_logits"]
    with pytest.raises(fa2.InvalidRequest, match=r"max_logits.shape = \(4, 2\)"):
        fa2.attention(q, k, v, max_logits=np.zeros((4, 2), np.float32))


def test_largest_logits_of_packed_sequences() -> None:
    q, k, v = (x[0] for x in tensors())
    tables = dict(cu_seqlens_q=np.int32([0, 10, 24]), cu_seqlens_k=np.int32([0, 40, 40]))
    _, logits = fa2.attention(q, k, v, **tables, max_seqlen_q=14, max_seqlen_k=40, return_max_logits=True)
    np.testing.assert_allclose(logits[0], scores(q[None, :10], k[None]).max((0, 2, 3)), rtol=1e-5)
    assert np.isneginf(logits[1]).all()


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

    def test_gradients_follow_the_base_of_the_lse(self) -> None:
        found = []
        for base, factor in (("natural", 1.0), ("two", math.log(2))):
            leaves = self.leaves()
            out, lse = fa2.attention(*leaves, causal=True, return_lse=True, lse_base=base)
            (out.float().sum() + factor * lse.sum()).backward()
            found.append([x.grad.float() for x in leaves])
        for natural, two in zip(*found):
            self.torch.testing.assert_close(natural, two, rtol=4e-3, atol=4e-3)

    def test_largest_logits_of_a_call_with_gradients(self) -> None:
        leaves = self.leaves()
        out, logits = fa2.attention(*leaves, return_max_logits=True)
        assert not logits.requires_grad
        np.testing.assert_allclose(logits, scores(*tensors()[:2]).max((2, 3)), rtol=1e-5)
        out.float().sum().backward()
        again = self.leaves()
        fa2.attention(*again).float().sum().backward()
        for x, y in zip(leaves, again):
            self.torch.testing.assert_close(x.grad, y.grad)

    def test_largest_logits_are_refused_under_modes(self) -> None:
        from torch.utils._python_dispatch import TorchDispatchMode

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return function(*args, **(kwargs or {}))

        with Mode(), pytest.raises(fa2.InvalidRequest, match="max_logits = given, must be None under torch.compile"):
            fa2.attention(*(x.detach() for x in self.leaves()), return_max_logits=True)

    def test_flash_attention_3_has_the_margin(self) -> None:
        from fa2.flash_attn_3_interface import flash_attn_func

        q, k, v = (x.detach() for x in self.leaves())
        assert (flash_attn_func(q, k, v, sm_margin=1) == flash_attn_func(q, k, v)).all()
        with pytest.raises(fa2.InvalidRequest, match="sm_margin = 7, must be in 0..1"):
            flash_attn_func(q, k, v, sm_margin=7)
