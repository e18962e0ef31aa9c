"""fa2.bert_padding and fa2.rotary, which PyTorch's operators compute."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fa2 import bert_padding, rotary  # noqa: E402

MASK = [[True, True, False, False], [False] * 4, [True, False, True, True]]


def test_unpad_and_pad_are_inverse_and_differentiable() -> None:
    mask = torch.tensor(MASK)
    hidden = torch.randn(3, 4, 2, 5, requires_grad=True)
    packed, indices, cu_seqlens, longest, used = bert_padding.unpad_input(hidden, mask)
    assert torch.equal(packed, hidden[mask]) and indices.tolist() == [0, 1, 8, 10, 11]
    assert cu_seqlens.tolist() == [0, 2, 2, 5] and cu_seqlens.dtype == torch.int32
    assert longest == 3 and type(longest) is int and used.tolist() == [2, 0, 3]
    padded = bert_padding.pad_input(packed, indices, 3, 4)
    assert torch.equal(padded, hidden * mask[..., None, None])
    (gradient,) = torch.autograd.grad(padded.square().sum(), hidden)
    assert torch.equal(gradient, 2 * hidden * mask[..., None, None])


def test_rows_with_a_place_that_do_not_count() -> None:
    mask, unused = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]]), torch.tensor([[0, 0, 1, 0], [0, 0, 0, 0]])
    packed, _, cu_seqlens, longest, used = bert_padding.unpad_input(torch.randn(2, 4, 3), mask, unused)
    assert packed.shape == (4, 3) and cu_seqlens.tolist() == [0, 3, 4] and longest == 3 and used.tolist() == [2, 1]


def test_several_sequences_in_a_row() -> None:
    lengths = torch.tensor([[2, 3, 0, 0, 0, 0], [0] * 6, [6, 0, 0, 0, 0, 0]])
    hidden = torch.randn(3, 6, 4)
    packed, indices, cu_seqlens, longest = bert_padding.unpad_input_for_concatenated_sequences(hidden, lengths)
    assert cu_seqlens.tolist() == [0, 2, 5, 11] and longest == 6
    assert torch.equal(packed, torch.cat((hidden[0, :5], hidden[2])))
    assert indices.tolist() == [0, 1, 2, 3, 4, *range(12, 18)]


def test_rows_by_index() -> None:
    x = torch.randn(6, 3, requires_grad=True)
    rows, same = bert_padding.index_first_axis_residual(x, torch.tensor([4, 1]))
    assert torch.equal(rows, x[[4, 1]]) and torch.equal(same, x)
    assert torch.equal(rows, bert_padding.index_first_axis(x, torch.tensor([4, 1])))


def tables(rotary_dim: int) -> tuple[Any, Any]:
    turns = torch.arange(16)[:, None] * torch.linspace(0.1, 1, rotary_dim // 2)
    return turns.cos(), turns.sin()


@pytest.mark.parametrize("interleaved", [False, True])
def test_columns_turn_in_pairs(interleaved: bool) -> None:
    x, (cos, sin) = torch.randn(2, 4, 3, 12), tables(8)
    out = rotary.apply_rotary_emb(x, cos, sin, interleaved, seqlen_offsets=torch.tensor([3, 5]))
    assert torch.equal(out[..., 8:], x[..., 8:])
    for pair in range(4):
        a, b = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + 4)
        for batch, start in enumerate((3, 5)):
            turned = torch.view_as_complex(torch.stack((x[batch, ..., a], x[batch, ..., b]), -1))
            angle = torch.complex(cos, sin)[start : start + 4, pair, None]
            torch.testing.assert_close(torch.view_as_real(turned * angle), out[batch][..., [a, b]])


def test_packed_sequences_have_their_own_positions() -> None:
    x, (cos, sin) = torch.randn(9, 2, 8), tables(8)
    cu_seqlens = torch.tensor([0, 3, 3, 7], dtype=torch.int32)
    out = rotary.apply_rotary_emb(x, cos, sin, cu_seqlens=cu_seqlens, max_seqlen=4)
    expected = [rotary.apply_rotary_emb(x[None, a:b], cos, sin)[0] for a, b in ((0, 3), (3, 7))]
    assert torch.equal(out, torch.cat([*expected, x[7:]]))


def test_gradients_turn_back_and_in_place_is_in_place() -> None:
    x, (cos, sin) = torch.randn(2, 4, 3, 8, dtype=torch.float64, requires_grad=True), tables(8)
    (gradient,) = torch.autograd.grad(rotary.apply_rotary_emb(x, cos, sin).square().sum(), x)
    torch.testing.assert_close(gradient, 2 * x, atol=1e-5, rtol=1e-5)
    qkv = torch.randn(2, 4, 3, 2, 8)
    copy = qkv.clone()
    assert rotary.apply_rotary_emb_qkv_(qkv, cos, sin) is qkv
    for part in range(2):
        assert torch.equal(qkv[:, :, part], rotary.apply_rotary_emb(copy[:, :, part], cos, sin))
    assert torch.equal(qkv[:, :, 2], copy[:, :, 2])
    grouped = copy.flatten(2, 3).clone()
    rotary.apply_rotary_emb_qkv_(grouped, cos, sin, num_heads_q=2)
    assert torch.equal(grouped, qkv.flatten(2, 3))
    kv = copy[:, :, 1:].clone()
    assert torch.equal(rotary.apply_rotary_emb_kv_(kv, cos, sin)[:, :, 0], qkv[:, :, 1])


def test_the_module_keeps_its_tables() -> None:
    module = rotary.RotaryEmbedding(8, interleaved=True)
    qkv = torch.randn(1, 4, 3, 2, 8)
    angles = torch.arange(6.0)[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
    expected = rotary.apply_rotary_emb(qkv[:, :, 0], angles.cos(), angles.sin(), True, seqlen_offsets=2)
    torch.testing.assert_close(module(qkv.clone(), seqlen_offset=2)[:, :, 0], expected)
    q, kv = module(qkv[:, :, 0].clone(), qkv[:, :, 1:].clone(), seqlen_offset=2)
    torch.testing.assert_close(q, expected)
    scaled = rotary.RotaryEmbedding(8, scale_base=512)(qkv.clone())
    plain = rotary.RotaryEmbedding(8)(qkv.clone())
    products = [torch.einsum("bihd,bjhd->bhij", *x[:, :, :2].unbind(2)).diagonal(0, -2, -1) for x in (scaled, plain)]
    torch.testing.assert_close(*products)  # xPos keeps the product of a row with itself
    with pytest.raises(ValueError, match="max_seqlen"):
        module(qkv, seqlen_offset=torch.tensor([1]))


def test_positions_beyond_the_tables() -> None:
    with pytest.raises(ValueError, match=r"cos.shape\[0\] = 16, must be at least"):
        rotary.apply_rotary_emb(torch.randn(1, 10, 1, 8), *tables(8), seqlen_offsets=7)
