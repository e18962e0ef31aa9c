"""The functions that fa2 registers with Hugging Face transformers, on the interpreter."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import fa2  # noqa: E402
import fa2.transformers  # noqa: E402
from fa2.transformers import _attention, _lengths  # noqa: E402

DTYPE = torch.bfloat16


class Layer(torch.nn.Module):
    is_causal = True

    def __init__(self, dtype: Any = DTYPE) -> None:
        super().__init__()
        self.config = transformers.PreTrainedConfig()
        self.projection = torch.nn.Linear(1, 1, dtype=dtype)


def rows(heads: int, length: int, head_dim: int = 16, dtype: Any = DTYPE) -> Any:
    generator = torch.Generator().manual_seed(heads + length)
    return torch.randn(2, heads, length, head_dim, generator=generator).to(dtype)


def test_queries_that_are_padding_get_zeros() -> None:
    counts = torch.ones(2, 12, dtype=torch.bool)
    counts[0, :5] = False
    counts[1, 7:] = False
    mask = fa2.transformers.find_lengths(2, 12, 12, attention_mask=counts)
    out, _ = fa2.transformers.attend(Layer().eval(), rows(4, 12), rows(2, 12), rows(2, 12), mask)
    assert (out[~counts] == 0).all() and (out[counts] != 0).any(-1).all()


def test_a_cache_is_not_copied(monkeypatch: Any) -> None:
    seen = []

    def listening(q: Any, k: Any, v: Any, **numbers: Any) -> Any:
        seen.append((k, v))
        return fa2.attention(q, k, v, **numbers)

    monkeypatch.setattr(_attention, "attention", listening)
    q, k, v = rows(4, 1), rows(2, 12), rows(2, 12).transpose(1, 2).contiguous().transpose(1, 2)
    counts = torch.ones(2, 12, dtype=torch.bool)
    counts[1, :3] = False
    for keys, values in ((k, k * 2), (v, v * 2)):
        mask = fa2.transformers.find_lengths(2, 1, 12, 11, attention_mask=counts)
        fa2.transformers.attend(Layer().eval(), q, keys, values, mask)
        assert [x.data_ptr() for x in seen.pop()] == [keys.data_ptr(), values.data_ptr()]


def test_values_may_be_narrower_and_head_dims_odd() -> None:
    q, k, v = rows(4, 12, 20), rows(2, 12, 20), rows(2, 12, 8)
    out, _ = fa2.transformers.attend(Layer().eval(), q, k, v, None)
    assert out.shape == (2, 12, 4, 8)
    tensors = (x.float().repeat_interleave(4 // x.shape[1], 1) for x in (q, k, v))
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True).transpose(1, 2)
    torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)


def test_wide_heads_run_in_kernels_without_gradients(monkeypatch: Any) -> None:
    monkeypatch.setattr(_attention, "attend_pattern", lambda *_: pytest.fail("PyTorch's operations computed"))
    tensors = rows(2, 5, 512), rows(1, 12, 512), rows(1, 12, 512) * 0.5
    out, _ = fa2.transformers.attend(Layer().eval(), *tensors, None)
    q, k, v = (x.float().repeat_interleave(2 // x.shape[1], 1) for x in tensors)
    visible = torch.ones(5, 12, dtype=torch.bool).tril(7)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, visible).transpose(1, 2)
    torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)
    with pytest.raises(fa2.InvalidRequest, match="head_dim = 512 and head_dim_v = 512, whose gradients are computed up to 256"):
        fa2.transformers.attend(Layer(), tensors[0].requires_grad_(), *tensors[1:], None)


def test_float32_is_cast_to_what_the_model_computes_in() -> None:
    tensors = (rows(4, 12, dtype=torch.float32), rows(2, 12, dtype=torch.float32), rows(2, 12, dtype=torch.float32))
    assert fa2.transformers.attend(Layer().eval(), *tensors, None)[0].dtype == DTYPE
    layer = Layer(torch.float32).eval()
    with pytest.raises(TypeError, match="float16 or bfloat16"):
        fa2.transformers.attend(layer, *tensors, None)
    with torch.autocast("cpu", torch.float16):
        assert fa2.transformers.attend(layer, *tensors, None)[0].dtype == torch.float16


def test_dropout_is_for_training() -> None:
    tensors, layer = (rows(4, 12), rows(2, 12), rows(2, 12)), Layer()
    plain = fa2.transformers.attend(layer.eval(), *tensors, None, dropout=0.5)[0]
    assert torch.equal(plain, fa2.transformers.attend(layer, *tensors, None)[0])
    assert not torch.equal(plain, fa2.transformers.attend(layer.train(), *tensors, None, dropout=0.5)[0])


def test_nothing_gives_nothing() -> None:
    out, _ = fa2.transformers.attend(Layer().eval(), rows(4, 0), rows(2, 0), rows(2, 0), None)
    assert out.shape == (2, 0, 4, 16)


def test_masks_of_integers_are_an_error() -> None:
    mask = torch.ones(2, 1, 12, 12, dtype=torch.int32)
    with pytest.raises(ValueError, match="numbers to add"):
        fa2.transformers.attend(Layer().eval(), rows(4, 12), rows(2, 12), rows(2, 12), mask)


def test_registering_again_changes_nothing() -> None:
    assert fa2.transformers.register() == fa2.transformers.register() == "fa2"
    with pytest.raises(ValueError, match="flash"):
        fa2.transformers.register("my_flash")


def test_lengths_are_none_where_every_key_counts() -> None:
    find = fa2.transformers.find_lengths
    everything = torch.ones(2, 12, dtype=torch.bool)
    assert find(2, 12, 12) is None and find(2, 12, 12, attention_mask=everything) is None
    static = find(2, 12, 32, attention_mask=everything)
    assert static is not None and _lengths.are_lengths(static)
    assert static[0, 0].tolist() == [[12, 12], [12, 12]]
    assert find(2, 12, 32, attention_mask=static) is static, "generate() makes masks before the model does"


def test_masks_of_other_patterns_are_made_as_for_sdpa() -> None:
    from transformers import masking_utils as masks

    find = fa2.transformers.find_lengths
    chunks = masks.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.int64))
    made = find(2, 12, 12, mask_function=chunks, local_size=4)
    assert made is not None and made.dtype == torch.bool and made.shape == (2, 1, 12, 12)
    assert made[0, 0].sum() == 3 * (1 + 2 + 3 + 4)
    assert find(2, 12, 12, mask_function=chunks, local_size=12) is None, "one chunk alone"
    either = masks.or_masks(masks.causal_mask_function, masks.blockwise_overlay(torch.zeros(2, 12)))
    made = find(2, 12, 12, mask_function=either)
    assert made is not None and made.all()


def test_the_mask_says_whether_attention_has_a_direction() -> None:
    from transformers.masking_utils import bidirectional_mask_function

    counts = torch.ones(2, 12, dtype=torch.bool)
    counts[0, 7:] = False
    q, k, v = rows(4, 5), rows(4, 12), rows(4, 12, 16) * 2
    mask = fa2.transformers.find_lengths(
        2, 5, 12, mask_function=bidirectional_mask_function, attention_mask=counts
    )
    out, _ = fa2.transformers.attend(Layer().eval(), q, k, v, mask)
    tensors = (x.float() for x in (q, k, v))
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, counts[:, None, None]).transpose(1, 2)
    torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)
