"""Errors have the form NAME = GIVEN, must EXPECTED: DO, and list every mistake of a call."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import fa2

f16, f32 = np.float16, np.float32


def zeros(*shape: int, dtype: Any = f16) -> Any:
    return np.zeros(shape, dtype)


Q = zeros(1, 8, 4, 16)
WINDOW = "must be (left, right), two numbers of keys, -1 for no bound: pass (128, 0) for 128 keys before a query"
MASK = 'must be True, False, "bottom_right" or "top_left"'
NO_TENSOR = "must be a PyTorch tensor or a numpy array"
SWAPPED = 'q, k and v look like (batch, heads, seqlen, head_dim): pass layout="bhsd"'
HEADS_FIRST = (zeros(1, 8, 1, 16), zeros(1, 2, 100, 16), zeros(1, 2, 100, 16))

#: Tensors, keywords, and the lines of the message.
ATTENTION: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    "a mask of no name": ((Q, Q, Q), dict(causal="yes"), [f"causal = 'yes', {MASK}"]),
    "no mask at all": ((Q, Q, Q), dict(causal=None), [f"causal = None, {MASK}"]),
    "a mask in a list": ((Q, Q, Q), dict(causal=[True]), [f"causal = [True], {MASK}"]),
    "one number for a window": ((Q, Q, Q), dict(window_size=128), [f"window_size = 128, {WINDOW}"]),
    "a window of three": ((Q, Q, Q), dict(window_size=(1, 2, 3)), [f"window_size = (1, 2, 3), {WINDOW}"]),
    "a negative chunk": ((Q, Q, Q), dict(attention_chunk=-1), ["attention_chunk = -1, must be an integer from 0 on: 0 for no chunks"]),
    "a negative window": ((Q, Q, Q), dict(window_size=(-2, 0)), [f"window_size = (-2, 0), {WINDOW}"]),
    "PyTorch's mask": (
        (Q, Q, Q),
        dict(attn_mask=None),
        ["attn_mask = None, must not be given: pass causal=True, window_size, attention_chunk or seqused_k, or the tensor itself as bias=: of bools, true where a query sees a key, or of numbers to add"],
    ),
    "PyTorch's causal": ((Q, Q, Q), dict(is_causal=True), ["is_causal = True, must have the name causal: pass causal=..."]),
    "PyTorch's scale": ((Q, Q, Q), dict(scale=0.1), ["scale = 0.1, must have the name softmax_scale: pass softmax_scale=..."]),
    "a misspelt name": ((Q, Q, Q), dict(casual=True), ["casual = True, must have the name causal: pass causal=..."]),
    "a name of nothing": ((Q, Q, Q), dict(zzz=1), ["zzz = 1, must not be given: no argument has this name"]),
    "q of no dimension": ((zeros(), Q, Q), {}, ["q.shape = (), must be (total_q, heads_q, head_dim) if cu_seqlens_q"]),
    "k of no dimension": ((Q, zeros(), Q), {}, ["k.shape = (), must be (total_k, heads_kv, head_dim) if cu_seqlens_k"]),
    "v of no dimension": ((Q, Q, zeros()), {}, ["v.shape = (), must be (total_k, heads_kv, head_dim_v) if cu_seqlens_k"]),
    "no tensors": (
        (None, [1], "text"),
        {},
        [f"q = None, {NO_TENSOR}", f"k = [1], {NO_TENSOR}", f"v = 'text', {NO_TENSOR}"],
    ),
    "a list for slopes": ((Q, Q, Q), dict(alibi_slopes=[1.0]), [f"alibi_slopes = [1.0], {NO_TENSOR}"]),
    "an out that is no tensor": ((Q, Q, Q), dict(out=1), [f"out = 1, {NO_TENSOR}"]),
    "an unknown layout": ((Q, Q, Q), dict(layout="sbhd"), ["layout = 'sbhd', must be \"bshd\" or \"bhsd\""]),
    "packed heads first": (
        (Q[0], Q[0], Q[0]),
        dict(layout="bhsd"),
        ['layout = "bhsd", must be "bshd" for tensors of other than four dimensions'],
    ),
    "heads first without saying so": (HEADS_FIRST, {}, ["heads_kv = 100, must be at least 1 and divide heads_q = 1", SWAPPED]),
    "columns of no multiple of 8": (
        (Q[..., :12],) * 3,
        {},
        ["head_dim = 12, must be a multiple of 8", "head_dim: fa2.pad_head_dim() fills up q, k and v with zeros"],
    ),
    "a dtype that fa2 has no word for": ((Q, Q.astype(np.float64), Q), {}, ["k.dtype = float64, must be float16, bfloat16 or float8_e4m3fn"]),
    "everything at once": (
        (Q, Q[:, :, :3], Q),
        dict(causal="yes", window_size=128, softcap="x", dropout_p=2, max_seqlen_q="long", return_lse=None, scale=1),
        [
            "scale = 1, must have the name softmax_scale: pass softmax_scale=...",
            f"causal = 'yes', {MASK}",
            f"window_size = 128, {WINDOW}",
            "softcap = 'x', must be a finite number from 0 on: 0 for no cap",
            "dropout_p = 2, must be a number from 0 to below 1",
            "max_seqlen_q = 'long', must be an integer from 0 on, or None",
            "return_lse = None, must be True or False",
            "v.shape = (1, 8, 4, 16), must be (1, 8, 3, 16) = (batch, seqlen_k, heads_kv, head_dim_v)",
        ],
    ),
}


def lines_of(function: Any, *args: Any, **keywords: Any) -> list[str]:
    with pytest.raises(fa2.InvalidRequest) as caught:
        function(*args, **keywords)
    return [line.strip() for line in str(caught.value).split("\n")]


def expect(found: list[str], wanted: list[str]) -> None:
    assert len(found) == 1 + len(wanted), found
    for line in wanted:
        assert any(x.startswith(line) for x in found), (line, found)


@pytest.mark.parametrize("name", [name for name in ATTENTION if name != "columns of no multiple of 8"])
def test_attention_lists_its_mistakes(name: str) -> None:
    tensors, keywords, wanted = ATTENTION[name]
    found = lines_of(fa2.attention, *tensors, **keywords)
    expect(found if len(wanted) < len(found) else ["", *found], wanted)


def test_attention_says_what_to_do_about_columns() -> None:
    tensors, _, wanted = ATTENTION["columns of no multiple of 8"]
    assert {x[: len(y)] for x in lines_of(fa2.attention, *tensors) for y in wanted} >= set(wanted)


@pytest.mark.parametrize("function", [fa2.explain, fa2.tune])
def test_explain_and_tune_list_their_mistakes(function: Any) -> None:
    found = lines_of(function, Q, Q[:, :, :3], Q, casual=True, window_size=3)
    expect(
        found,
        [
            "casual = True, must have the name causal: pass causal=...",
            "window_size = 3, must be (left, right)",
            "v.shape = (1, 8, 4, 16), must be (1, 8, 3, 16)",
        ],
    )


def test_types_are_type_errors_and_requests_are_value_errors() -> None:
    for wrong in (dict(causal=None), dict(foo=1), dict(alibi_slopes=[1])):
        with pytest.raises(TypeError) as caught:
            fa2.attention(Q, Q, Q, **wrong)
        assert isinstance(caught.value, fa2.InvalidType) and isinstance(caught.value, ValueError)
    with pytest.raises(fa2.InvalidRequest) as request:
        fa2.attention(Q, Q, Q, window_size=(-2, 0))
    assert not isinstance(request.value, fa2.InvalidType)


def test_heads_first_is_the_same_attention_without_a_copy() -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, n, heads, 16)).astype(f16) for n, heads in ((5, 4), (9, 2), (9, 2)))
    expected, expected_lse = fa2.attention(q, k, v, causal=True, return_lse=True)
    heads_first = [x.swapaxes(1, 2) for x in (q, k, v)]
    out, lse = fa2.attention(*heads_first, causal=True, return_lse=True, layout="bhsd")
    np.testing.assert_array_equal(out, expected.swapaxes(1, 2))
    np.testing.assert_array_equal(lse, expected_lse)
    given = np.zeros((2, 4, 5, 16), f16)
    assert np.shares_memory(fa2.attention(*heads_first, causal=True, layout="bhsd", out=given), given)
    np.testing.assert_array_equal(given, out)


def test_heads_first_that_fits_by_accident_is_warned_of() -> None:
    q = zeros(1, 1, 300, 16)  # 300 rows of one head
    with pytest.warns(UserWarning, match=r"q.shape = \(1, 1, 300, 16\).*300 heads: pass layout=\"bhsd\""):
        fa2.attention(q, q, q)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fa2.attention(q, q, q, layout="bhsd").shape == q.shape


def test_append_and_merge_list_their_mistakes() -> None:
    lengths = np.int32([0])
    expect(
        lines_of(fa2.append, Q, None, Q, "cache", lengths, rotary_cos=[1]),
        [f"v = None, {NO_TENSOR}", f"v_cache = 'cache', {NO_TENSOR}", f"rotary_cos = [1], {NO_TENSOR}"],
    )
    expect(["", *lines_of(fa2.append, Q, Q, Q, Q, 3)[1:]], [f"cache_seqlens = 3, {NO_TENSOR}"])
    expect(
        lines_of(fa2.append, Q, Q, Q, Q, lengths, page_tables=1),
        ["page_tables = 1, must have the name page_table: pass page_table=..."],
    )
    expect(lines_of(fa2.merge, [1], None), [f"out_parts = [1], {NO_TENSOR}", f"lse_parts = None, {NO_TENSOR}"])
    expect(lines_of(fa2.merge, zeros(), zeros()), ["out_parts.shape = ()", "lse_parts.dtype = float16", "lse_parts.shape = ()"])


def test_pad_head_dim_names_its_argument() -> None:
    expect(lines_of(fa2.pad_head_dim, [1]), [f"tensor = [1], {NO_TENSOR}"])
    assert lines_of(fa2.pad_head_dim, zeros()) == ["tensor.shape = (), must have a last dimension: pass (..., head_dim)"]


def test_precompile_lists_its_mistakes() -> None:
    expect(
        lines_of(fa2.precompile, None, head_dims="64", dtypes=["f16", "float16"], causal="yes", window=1, page_size="a", kv_type="fp8"),
        [
            'archs = None, must be names: pass ["sm_80", "sm_90a"]',
            "head_dims = '64', must be integers: pass [64, 128]",
            "dtypes = 'f16', must be \"float16\" or \"bfloat16\"",
            f"causal = 'yes', {MASK}",
            "window = 1, must be True, False or (False, True)",
            "page_size = 'a', must be an integer: 0 for no pages",
            "kv_type = 'fp8', must be \"same\", \"e4m3\" or \"ds_mla\"",
        ],
    )
    # A single str is accepted in place of a list, and not split into its letters.
    expect(lines_of(fa2.precompile, "sm_8", head_dims=64), ['archs[0] = "sm_8", must be one of sm_80'])
    bytes_of_one = {"head_dims": 64, "dtypes": "float16", "causal": False, "kv_type": "e4m3"}
    expect(
        lines_of(fa2.precompile, "sm_80", **bytes_of_one, backward=True),
        ["problems[0].kv_type = e4m3, must be same: gradients of 8-bit keys and values are not computed; or precompile no backward"],
    )


def torch_tensors() -> Any:
    torch = pytest.importorskip("torch")
    return torch, torch.zeros(Q.shape, dtype=torch.float16)


def test_tensors_of_two_libraries_are_named() -> None:
    _, q = torch_tensors()
    expect(lines_of(fa2.attention, q, Q, q), ["k = numpy.ndarray, must be a PyTorch tensor, as q: pass torch.from_numpy(k)"])
    expect(lines_of(fa2.attention, Q, Q, q), ["v = torch.Tensor, must be a numpy array, as q: pass v.numpy()"])
    expect(
        lines_of(fa2.attention, q, q, q, sinks=zeros(4, dtype=f32), causal="yes"),
        ["sinks = numpy.ndarray, must be a PyTorch tensor, as q: pass torch.from_numpy(sinks)", f"causal = 'yes', {MASK}"],
    )
    expect(lines_of(fa2.append, q, Q, q, q, q), ["v = numpy.ndarray, must be a PyTorch tensor, as k: pass torch.from_numpy(v)"])


def test_meta_tensors_are_named_without_a_backtrace() -> None:
    torch, q = torch_tensors()
    meta, lengths = q.to("meta"), torch.zeros(1, dtype=torch.int32)
    wanted = "must be a CUDA device or the CPU"
    expect(lines_of(fa2.attention, q, meta, q), [f"k.device = meta, {wanted}"])
    expect(lines_of(fa2.attention, q, q, q, seqused_k=lengths.to("meta")), [f"seqused_k.device = meta, {wanted}"])
    expect(lines_of(fa2.append, q, meta, q, q, lengths), [f"v.device = meta, {wanted}"])
    found = lines_of(fa2.merge, meta[None], torch.zeros(1, 1, 4, 8))
    expect(found, [f"out_parts.device = meta, {wanted}"])


def test_tensors_that_are_not_dense_are_named() -> None:
    _, q = torch_tensors()
    expect(lines_of(fa2.attention, q.to_sparse(), q, q), ["q = torch.sparse_coo, must be dense: pass its to_dense()"])


def test_float32_has_advice() -> None:
    _, q = torch_tensors()
    found = lines_of(fa2.attention, q.float(), q.float(), q.float())
    assert found[-1] == "float32 tensors: cast them, or pass autocast=True under torch.autocast"


def test_heads_first_is_differentiable_and_compiles() -> None:
    torch, _ = torch_tensors()
    q = torch.randn(1, 2, 9, 16, dtype=torch.float32).half().requires_grad_()
    turned = q.detach().transpose(1, 2).contiguous().requires_grad_()
    out, expected = fa2.attention(q, q, q, layout="bhsd"), fa2.attention(turned, turned, turned)
    assert torch.equal(out, expected.transpose(1, 2))
    (found,) = torch.autograd.grad(out.square().sum(), q)
    (wanted,) = torch.autograd.grad(expected.square().sum(), turned)
    assert torch.allclose(found, wanted.transpose(1, 2), atol=1e-2)
    compiled = torch.compile(lambda x: fa2.attention(x, x, x, layout="bhsd"), backend="eager", fullgraph=True)
    assert torch.equal(compiled(q.detach()), out)


def test_functions_of_flash_attn_name_what_is_wrong() -> None:
    torch, q = torch_tensors()
    from fa2 import flash_attn_3_interface, flash_attn_interface

    for function in (flash_attn_interface.flash_attn_func, flash_attn_3_interface.flash_attn_func):
        expect(lines_of(function, Q, Q, None)[:2], [f"v = None, {NO_TENSOR}"])
        expect(lines_of(function, q, Q, q), ["k = numpy.ndarray, must be a PyTorch tensor, as q: pass torch.from_numpy(k)"])
        expect(lines_of(function, q, q, q, window_size=128), ["window_size = 128, must be (left, right)"])
        expect(lines_of(function, q, q, q, casual=True), ["casual = True, must have the name causal: pass causal=..."])


def test_options_of_the_extension_are_counted() -> None:
    with pytest.raises(TypeError, match=re.escape("options = (1, 2), must be a tuple of ")):
        fa2._core.forward(Q, Q, Q, None, (1, 2), False, True)  # type: ignore[attr-defined]
