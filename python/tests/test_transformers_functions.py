"""The functions that fa2 registers with Hugging Face transformers, on the interpreter."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import fa2  # noqa: E402
import fa2.transformers  # noqa: E402
from fa2.transformers import _attention, _functions, _lengths  # noqa: E402

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


def test_wide_heads_run_in_kernels_without_gradients() -> None:
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


def hidden(dtype: Any) -> Any:
    """Returns a mask (2, 1, 5, 12) of numbers to add: biases, hidden keys, and a query that sees no key."""
    mask = torch.linspace(-1, 1, 120, dtype=torch.float64).view(2, 1, 5, 12).to(dtype)
    mask[0, 0, :, 3:6] = torch.finfo(dtype).min
    mask[1, 0, 1, ::2] = -torch.inf
    mask[1, 0, 4] = torch.finfo(dtype).min
    return mask


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_masks_of_numbers(dtype: Any) -> None:
    tensors, mask = (rows(4, 5), rows(2, 12), rows(2, 12) * 2), hidden(dtype)
    out, _ = fa2.transformers.attend(Layer().eval(), *tensors, mask, sliding_window=2)
    assert (out[1, 4] == 0).all(), "a query that sees no key"
    q, k, v = (x.float().repeat_interleave(4 // x.shape[1], 1) for x in tensors)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask.float()).transpose(1, 2)
    expected[1, 4] = 0
    torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("sizes", [(1, 1, 5, 12), (2, 4, 5, 12), (2, 1, 1, 12), (1, 4, 5, 16), (2, 1, 5, 1), (1, 1, 1, 1)], ids=str)
def test_dimensions_of_masks_and_biases_may_be_one(sizes: Any, monkeypatch: Any) -> None:
    seen = []
    monkeypatch.setattr(_attention, "attention", lambda *a, **b: (seen.append(b), fa2.attention(*a, **b))[1])
    tensors = rows(4, 5), rows(2, 12), rows(2, 12) * 2
    generator = torch.Generator().manual_seed(5)
    mask, bias = torch.rand(sizes, generator=generator) < 0.7, torch.randn(sizes, generator=generator)
    mask[..., 0] = True
    out, _ = fa2.transformers.attend(Layer().eval(), *tensors, mask, position_bias=bias)
    assert ("at.head" in seen[0]["mask_mod"].text) == (sizes[1] > 1) and ("at.batch" in seen[0]["bias"].text) == (sizes[0] > 1)
    captures = {**seen[0]["mask_mod"].captures, **seen[0]["bias"].captures}
    assert {name: x.data_ptr() for name, x in captures.items()} == {"attention_mask": mask.data_ptr(), "position_bias": bias.data_ptr()}
    q, k, v = (x.float().repeat_interleave(4 // x.shape[1], 1) for x in tensors)
    numbers = bias.masked_fill(~mask, -torch.inf)[..., :12]
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, numbers).transpose(1, 2)
    torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)


def test_gradients_flow_under_masks_and_biases() -> None:
    tensors = [x.requires_grad_() for x in (rows(4, 5), rows(2, 12), rows(2, 12))]
    mask, bias = hidden(torch.float32).requires_grad_(), torch.linspace(-1, 1, 60).view(1, 1, 5, 12).requires_grad_()
    tensors += mask, bias
    out, _ = fa2.transformers.attend(Layer().eval(), *tensors[:4], position_bias=bias)
    found = torch.autograd.grad(out[:, :4].square().sum(), tensors)
    exact = [x.detach().double().requires_grad_() for x in tensors]
    q, k, v = (x.repeat_interleave(4 // x.shape[1], 1) for x in exact[:3])
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, exact[3] + exact[4])
    for a, b in zip(found, torch.autograd.grad(out[:, :, :4].square().sum(), exact)):
        torch.testing.assert_close(a.double(), b, atol=4e-2, rtol=4e-2)


def test_wrong_masks_and_biases_are_errors() -> None:
    tensors = rows(4, 5), rows(2, 12), rows(2, 12)
    with pytest.raises(ValueError, match=r"attention_mask\.shape = \(3, 1, 5, 12\), must be \(2, 4, 5, 12\)"):
        fa2.transformers.attend(Layer().eval(), *tensors, torch.ones(3, 1, 5, 12, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"position_bias\.shape = \(1, 4, 5, 7\)"):
        fa2.transformers.attend(Layer().eval(), *tensors, None, position_bias=torch.zeros(1, 4, 5, 7))
    borders = torch.tensor([0, 5, 10], dtype=torch.int32)
    with pytest.raises(NotImplementedError, match="must be None for packed sequences"):
        fa2.transformers.attend(Layer().eval(), *tensors, None, position_bias=torch.zeros(1, 4, 5, 12), cu_seq_lens_q=borders)


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


def patterns() -> dict[str, Any]:
    from transformers import masking_utils as masks

    images = torch.tensor([[0, 0, 0, -1, -1, 1, 1, 1, 1, -1, -1, -1]] * 2)
    places = torch.arange(12).repeat(2, 1)
    packed = masks.packed_sequence_compatibility_function(masks.sliding_window_causal_mask_function(3), places % 5, places // 5)
    return {
        "chunks": masks.chunked_causal_mask_function(4, torch.tensor([0, 2])),
        "images": masks.or_masks(masks.causal_mask_function, masks.blockwise_overlay(images)),
        "packed, and a model's own": masks.and_masks(packed, lambda b, h, q, k: (k + b) % 4 != 1),
        "images of numbers": masks.or_masks(masks.causal_mask_function, lambda b, h, q, k: images[b, q] == images[b, k]),
    }


@pytest.mark.parametrize("counts", ["all", "gaps"])
@pytest.mark.parametrize("offset", [0, 4, torch.tensor(4)], ids=["all", "chunk", "static"])
@pytest.mark.parametrize("name", patterns())
def test_functions_of_masks_run_in_kernels(name: str, offset: Any, counts: str) -> None:
    from transformers import AttentionMaskInterface

    length = 12 - int(offset)
    counting = torch.ones(2, 12, dtype=torch.bool)
    counting[0, 3:5] = counts == "all"
    arguments = {"q_offset": offset, "mask_function": patterns()[name], "attention_mask": counting}
    mask = fa2.transformers.find_lengths(2, length, 12, **arguments)
    assert type(mask) is _functions.FunctionMask and mask.shape == (2, 1, length, 12)
    tensors = rows(4, length), rows(2, 12), rows(2, 12) * 2
    out, _ = fa2.transformers.attend(Layer().eval(), *tensors, mask)
    assert mask._made is None, "no matrix was made"
    matrix = AttentionMaskInterface()["sdpa"](2, length, 12, **arguments, allow_is_causal_skip=False)
    assert torch.equal(matrix, mask & True)
    q, k, v = (x.float().repeat_interleave(4 // x.shape[1], 1) for x in tensors)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, matrix).transpose(1, 2)
    torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)


def test_texts_of_masks_do_not_depend_on_offsets() -> None:
    def text(offset: int) -> str:
        mask = fa2.transformers.find_lengths(2, 12 - offset, 12, q_offset=offset, mask_function=patterns()["images"])
        assert isinstance(mask, _functions.FunctionMask)
        return mask.text.text

    assert text(3) == text(5) != text(0)


def test_a_matrix_is_made_where_a_function_is_none(monkeypatch: Any) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(_lengths._logger, "warning_once", warnings.append)
    find, places = fa2.transformers.find_lengths, torch.arange(12)
    one = find(2, 1, 12, q_offset=11, mask_function=patterns()["chunks"])
    assert type(one) is torch.Tensor and one.shape == (2, 1, 1, 12) and not warnings, "the matrix is no larger than the mask of padding"
    strange = find(2, 12, 12, mask_function=lambda b, h, q, k: torch.isin(q, places[:3]))
    assert type(strange) is torch.Tensor and strange[0, 0].sum() == 3 * 12
    assert "fa2 reads the matrix of a mask" in warnings[0] and "isin" in warnings[0]


def test_compiled_layers_take_functions_of_masks() -> None:
    torch._dynamo.reset()
    layer = Layer().eval()

    def forward(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return fa2.transformers.attend(layer, q, k, v, mask)[0] * 2

    compiled = torch.compile(forward, backend="aot_eager", fullgraph=True)
    tensors = rows(4, 12), rows(2, 12), rows(2, 12) * 2
    for first in (2, 3):
        counts = torch.arange(12).expand(2, -1) >= first
        mask = fa2.transformers.find_lengths(2, 12, 12, mask_function=patterns()["images"], attention_mask=counts)
        assert type(mask) is _functions.FunctionMask
        assert torch.equal(compiled(*tensors, mask), forward(*tensors, mask))
    assert not torch.equal(compiled(*tensors, mask), compiled(*tensors, mask & (torch.arange(12) > 4)))


def test_one_chunk_alone_is_no_pattern() -> None:
    assert fa2.transformers.find_lengths(2, 12, 12, mask_function=patterns()["chunks"], local_size=12) is None


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
