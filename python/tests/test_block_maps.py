"""Tests the maps of blocks that masks hold between calls. Here a table hides nothing at first: a map then says that no block needs the mask."""

from __future__ import annotations

import copy
import gc
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import fa2  # noqa: E402
import fa2._block_mask  # noqa: E402
import score_reference  # noqa: E402

ROWS = 160  # kernels of fewer than 128 queries have no map


def qkv(device: str = "cpu", batch: int = 1, heads: int = 1, rows: int = ROWS, grad: bool = False) -> Any:
    torch.manual_seed(1)
    return [torch.randn(batch, heads, rows, 16).half().to(device).requires_grad_(grad) for _ in range(3)]


class Documents:
    """A table of documents, one at first, and its mask."""

    def __init__(self, device: str = "cpu", dtype: Any = torch.int32) -> None:
        self.table = torch.zeros(ROWS, dtype=dtype, device=device)
        table = self.table
        self.function = lambda b, h, q, k: table[q] == table[k]
        self.mask = fa2.create_block_mask(self.function, None, None, ROWS, ROWS, device=device)

    @property
    def maps(self) -> int:
        return len(self.mask.maps.held)


def reference(tensors: Any, mask_mod: Any) -> Any:
    out, lse = score_reference.attention(*(x.transpose(1, 2) for x in tensors), mask_mod=mask_mod)
    return out.transpose(1, 2), lse.masked_fill(lse == math.inf, -math.inf)


def expect(tensors: Any, block_mask: Any, function: Any) -> Any:
    out = fa2.flex_attention(*tensors, block_mask=block_mask)
    assert score_reference.error(out, reference(tensors, function)[0]) < 2e-3
    return out


def test_a_map_is_held_until_its_table_changes() -> None:
    documents = Documents()
    assert documents.maps == 0
    first = expect(qkv(), documents.mask, documents.function)
    documents.table.numpy()[64:] = 1  # which PyTorch does not count
    assert torch.equal(first, fa2.flex_attention(*qkv(), block_mask=documents.mask))
    assert documents.maps == 1
    documents.table.add_(0)
    assert not torch.equal(first, expect(qkv(), documents.mask, documents.function))
    assert documents.maps == 2
    fa2.attention(*qkv(), layout="bhsd", mask_mod=documents.function)
    assert documents.maps == 2


def test_the_last_maps_are_kept() -> None:
    documents = Documents()
    for length in (10, 30, 64, 80, 100, 160):
        documents.table.copy_(torch.arange(ROWS) // length)
        expect(qkv(), documents.mask, documents.function)
        held = documents.mask.maps.held
        fa2.flex_attention(*qkv(), block_mask=documents.mask)
        assert documents.mask.maps.held == held
    assert documents.maps == 4


@pytest.mark.parametrize("makes", [lambda n: torch.arange(ROWS) // n, lambda n: (torch.arange(ROWS) // n).to(torch.int8)], ids=["int64", "widened"])
def test_another_table_at_the_same_address(makes: Any) -> None:
    seen: list[Any] = []
    block_mask = fa2.create_block_mask(lambda b, h, q, k: seen[0][q] == seen[0][k], None, None, ROWS, ROWS, device="cpu")
    for length in (160, 64, 20, 130, 32, 80):
        seen[:] = []
        seen.append(makes(length))
        expect(qkv(), block_mask, lambda b, h, q, k, n=length: q // n == k // n)


def test_shapes_and_numbers_have_maps_of_their_own() -> None:
    limit = torch.tensor(1000)
    documents = Documents()
    block_mask = fa2.create_block_mask(lambda b, h, q, k: documents.function(b, h, q, k) & (k < limit), None, None, ROWS, ROWS, device="cpu")
    for count, tensors in enumerate((qkv(), qkv(batch=2), qkv(heads=2)), 1):
        expect(tensors, block_mask, documents.function)
        assert len(block_mask.maps.held) == count
    limit.fill_(70)
    expect(qkv(), block_mask, lambda b, h, q, k: (k < 70) & (q >= 0))
    assert len(block_mask.maps.held) == 4
    with pytest.raises(fa2.InvalidRequest, match="seq_lengths"):
        fa2.flex_attention(*qkv(rows=ROWS + 8), block_mask=block_mask)


def test_a_score_mod_changes_no_map() -> None:
    documents, bias = Documents(), torch.zeros(ROWS)
    out = [fa2.flex_attention(*qkv(), lambda s, b, h, q, k: s + bias[k], documents.mask)]
    held = documents.mask.maps.held
    bias.copy_(torch.linspace(-2, 2, ROWS))
    out.append(fa2.flex_attention(*qkv(), lambda s, b, h, q, k: s + bias[k], documents.mask))
    assert documents.mask.maps.held == held
    assert not torch.equal(*out)


def test_tensors_that_kernels_fetch_in_tiles_and_others_have_maps_of_their_own() -> None:
    documents, memory = Documents(), torch.linspace(-2, 2, ROWS * ROWS + 1)
    for offset, count in ((0, 1), (1, 2), (0, 2), (1, 2)):
        bias = memory[offset:][: ROWS * ROWS].view(ROWS, ROWS)  # at 1, the address is no multiple of 16 bytes
        out, lse = fa2.flex_attention(*qkv(), lambda s, b, h, q, k: s + bias[q, k], documents.mask, return_lse=True)  # noqa: B023
        wanted = score_reference.attention(*(x.transpose(1, 2) for x in qkv()), bias=lambda b, h, q, k: bias[q, k], mask_mod=documents.function)  # noqa: B023
        assert score_reference.error(out, wanted[0].transpose(1, 2)) < 2e-3
        assert documents.maps == count


def test_gradients_have_the_map_of_their_forward() -> None:
    documents, tensors = Documents(), qkv(grad=True)
    documents.table.copy_(torch.arange(ROWS) // 70)
    made = [fa2.flex_attention(*tensors, block_mask=documents.mask, return_lse=True)]
    wanted = reference(tensors, documents.function)
    documents.mask.maps.held = ()  # as after many other calls
    gc.collect()
    found = score_reference.gradients(*made[0], tensors)
    for a, b in zip(found, score_reference.gradients(*wanted, tensors)):
        assert score_reference.error(a, b) < 6e-3
    out = fa2.flex_attention(*tensors, block_mask=documents.mask)
    documents.table[100:] = 5
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_what_cannot_be_seen_is_mapped_in_each_call() -> None:
    with torch.inference_mode():
        documents = Documents()
        for length in (160, 50):
            documents.table.copy_(torch.arange(ROWS) // length)
            expect(qkv(), documents.mask, documents.function)
    assert documents.maps == 0
    table = fa2.Table(documents.table.numpy().copy())
    block_mask = fa2.create_block_mask(lambda b, h, q, k: table[q] == table[k], None, None, ROWS, ROWS, device="cpu")
    expect(qkv(), block_mask, lambda b, h, q, k: q // 50 == k // 50)
    assert block_mask.maps.held == ()


def test_operators_and_compiled_calls_hold_none() -> None:
    documents = Documents()
    block_mask = fa2.create_block_mask(fa2.score_text(mask_mod=documents.function), None, None, ROWS, ROWS, device="cpu")
    torch._dynamo.reset()
    compiled = torch.compile(lambda *tensors: fa2.flex_attention(*tensors, block_mask=block_mask), backend="aot_eager", fullgraph=True)
    for length in (160, 60):
        documents.table.copy_(torch.arange(ROWS) // length)
        assert score_reference.error(compiled(*qkv()), reference(qkv(), documents.function)[0]) < 2e-3
    assert block_mask.maps.held == ()


def test_copies_of_masks_have_maps_of_their_own() -> None:
    documents = Documents()
    expect(qkv(), documents.mask, documents.function)
    for made in (copy.copy(documents.mask.maps), copy.deepcopy(documents.mask).maps, documents.mask.to("cpu").maps):
        assert made.held == ()


def test_masks_of_pytorch_are_converted_once() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    documents = Documents()
    made = flex.create_block_mask(documents.function, None, None, ROWS, ROWS, device="cpu", BLOCK_SIZE=32)
    expect(qkv(), made, documents.function)
    _, _, function, maps = fa2._block_mask._converted[made]
    expect(qkv(), made, documents.function)
    assert fa2._block_mask._converted[made][2] is function
    assert len(maps.held) == 1
    made.full_kv_num_blocks.clamp_(max=2)  # rows of tiles see their first 64 keys alone
    expect(qkv(), made, lambda b, h, q, k: (k < 64) & (q >= 0))
    made.mask_mod = fa2.noop_mask
    expect(qkv(), made, lambda b, h, q, k: (k < 64) & (q >= 0))
    del made
    gc.collect()
    assert len(fa2._block_mask._converted) == 0


@pytest.mark.gpu
def test_beside_pytorch_on_a_gpu() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    documents, tensors = Documents("cuda"), qkv("cuda", batch=2, heads=3, grad=True)
    for length in (160, 70, 33, 128, 50, 20):
        documents.table.copy_(torch.arange(ROWS, device="cuda") // length)
        for _ in range(2):
            out, lse = fa2.flex_attention(*tensors, block_mask=documents.mask, return_lse=True)
            made = flex.create_block_mask(documents.function, None, None, ROWS, ROWS, device="cuda")
            wanted = flex.flex_attention(*(x.float() for x in tensors), block_mask=made, return_lse=True)
            assert score_reference.error(out, wanted[0]) < 2e-3
            for a, b in zip(score_reference.gradients(out, lse, tensors), score_reference.gradients(*wanted, tensors)):
                assert score_reference.error(a, b) < 6e-3
    assert documents.maps == 4


@pytest.mark.gpu
def test_streams_and_graphs_have_no_map_of_another() -> None:
    documents, tensors = Documents("cuda"), qkv("cuda")
    expect(tensors, documents.mask, documents.function)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        expect(tensors, documents.mask, documents.function)
    torch.cuda.current_stream().wait_stream(side)
    assert documents.maps == 2
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fa2.flex_attention(*tensors, block_mask=documents.mask)
    assert documents.maps == 2
    for length in (160, 40):
        documents.table.copy_(torch.arange(ROWS, device="cuda") // length)
        graph.replay()
        assert score_reference.error(out, reference(tensors, documents.function)[0]) < 2e-3
