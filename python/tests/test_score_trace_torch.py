"""Texts of traced functions, compiled on the host, compute what PyTorch does: values, and slopes by the score."""

from __future__ import annotations

import functools
import itertools
import math
import pathlib
from collections.abc import Callable
from typing import Any

import fa2
import pytest
from fa2 import _score_trace as scores
from score_oracle import Oracle

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
flex = pytest.importorskip("torch.nn.attention.flex_attention", reason="PyTorch has no FlexAttention")

F = torch.nn.functional
BATCH, HEADS, QUERIES, KEYS = 2, 4, 40, 48
random = torch.Generator().manual_seed(36)


def table(*shape: int) -> Any:
    return torch.randn(shape, generator=random)


def integers(most: int, *shape: int, dtype: Any = torch.int32) -> Any:
    return torch.randint(0, most, shape, generator=random).to(dtype)


SLOPES, BATCH_SLOPES, GAIN = table(HEADS), table(BATCH, HEADS).half(), torch.tensor(1.7)
BUCKETS = table(32, HEADS)
RELATIVE = table(HEADS, 2 * 16 + 1)
WINDOW_BIAS, WINDOW_INDEX = table(169, HEADS), integers(169, 49, 49, dtype=torch.int64)
DOCUMENTS = torch.arange(KEYS).div(7, rounding_mode="floor").int()
OFFSETS = torch.tensor([0, 5, 17, 30, KEYS])
PREFIX = torch.tensor([9, 20], dtype=torch.int32)
LENGTHS = torch.tensor([31, 48])
KEY_BIAS = table(BATCH, KEYS).bfloat16()
VISIBLE = integers(2, QUERIES, KEYS, dtype=torch.bool)
SMALL = integers(200, KEYS, dtype=torch.uint8)
ANCESTORS = integers(2**31 - 1, QUERIES, dtype=torch.int64) * 2**20
HEAD_MASK = integers(2, HEADS, dtype=torch.bool)
TEMPORARY = table(HEADS)
PARAMETER = torch.nn.Parameter(table(3, HEADS))

KEY_LIST = pytest.importorskip("numpy").arange(5)


def spread(x: Any) -> Any:
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        x = (x | (x << shift)) & mask
    return x


CASES: list[tuple[str, Callable[..., Any]]] = []


def case(function: Any) -> Any:
    """Registers a mask, mod or bias; the name's first part says which."""
    CASES.append((function.__name__.partition("_")[0], function))
    return function


def cases(kind: str, **functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        function.__name__ = f"{kind}_{name}"
        case(function)


# Biases and mods of section 2, "in use".
cases(
    "mod",
    alibi=lambda s, b, h, q, k: s + SLOPES[h] * (k - q),
    alibi_computed=lambda s, b, h, q, k: s - torch.exp2(-((h + 1) * 8.0 / HEADS)) * (q - k).abs(),
    alibi_of_batches=lambda s, b, h, q, k: s + BATCH_SLOPES[b, h].float() * (k - q),
    relative=lambda s, b, h, q, k: s + (q - k),
    relative_scaled=lambda s, b, h, q, k: s - 0.01 * (q - k) ** 2,
    sandwich=lambda s, b, h, q, k: s + sum(torch.cos((q - k) / 10 ** (2 * i / 8)) for i in range(4)) / (h + 1),
    log_distance=lambda s, b, h, q, k: s - SLOPES[h].abs() * torch.log1p(0.5 * (q - k).abs()),
    gaussian=lambda s, b, h, q, k: s - (k - q).float().square() / (2 * 3.5**2),
    clamped_table=lambda s, b, h, q, k: s + RELATIVE[h, torch.clamp(q - k, -16, 16) + 16],
    negative_index=lambda s, b, h, q, k: s + RELATIVE[h][(q - k) % 33 - 16],
    swin=lambda s, b, h, q, k: s + WINDOW_BIAS[WINDOW_INDEX[q, k], h],
    key_bias=lambda s, b, h, q, k: s + KEY_BIAS[b, k],
    head_mask=lambda s, b, h, q, k: torch.where(HEAD_MASK[h], s, -float("inf")),
    old_mask=lambda s, b, h, q, k: torch.where(q >= k, s + 0.5, torch.tensor(-math.inf)),
    softcap=lambda s, b, h, q, k: 20 * torch.tanh(s / 20),
    softcap_and_bias=lambda s, b, h, q, k: 20 * (s * (1 / 20)).tanh() + SLOPES[h],
    log_sigmoid=lambda s, b, h, q, k: torch.log(torch.sigmoid(s)),
    gain=lambda s, b, h, q, k: s * GAIN * SLOPES[h],
    temperature=lambda s, b, h, q, k: s * (torch.log(torch.floor((q.float() + 1) / 16) + 1) * 0.1 + 1),
    squared=lambda s, b, h, q, k: s**2 * 0.1,
    parameter=lambda s, b, h, q, k: s * PARAMETER[1][h] + PARAMETER[2, h],
    number=lambda s, b, h, q, k: 2.5,
    integer=lambda s, b, h, q, k: q - 2 * k,
    unchanged=lambda s, b, h, q, k: s,
)
# Slopes, and PyTorch's functions of scores.
cases(
    "mod",
    ties=lambda s, b, h, q, k: torch.maximum(s, torch.tensor(0.5)) + torch.minimum(s * 2, s + 0.5),
    clamp=lambda s, b, h, q, k: s.clamp(-1, 2.5) + torch.clamp(s, min=0.5) + s.clamp(max=GAIN),
    roundings=lambda s, b, h, q, k: s.floor() + s.ceil() * s + torch.round(s * 1.5) + s.trunc() * s,
    remainders=lambda s, b, h, q, k: s % 0.75 + torch.fmod(s, 2) + q.float() // 1.5 + torch.div(s, 3, rounding_mode="trunc"),
    activations=lambda s, b, h, q, k: F.relu(s) + F.gelu(s) + F.gelu(s, approximate="tanh") * F.silu(s) + F.softplus(s, beta=2),
    more_activations=lambda s, b, h, q, k: F.leaky_relu(s) + F.elu(s) * F.hardtanh(s) + F.logsigmoid(s) + F.relu6(s) + F.mish(s),
    powers=lambda s, b, h, q, k: s**3 - torch.pow(s, 2) * 2**s + (s.abs() + 1) ** -2 + (s.abs() + 1) ** 0.5 + 1.5**s,
    traced_power=lambda s, b, h, q, k: (s.abs() + 0.25) ** ((h + 1) * 0.5) + torch.pow(s.abs() + 0.25, s),
    elementary=lambda s, b, h, q, k: torch.exp(-s.abs()) + torch.log2(s.abs() + 1) + torch.erf(s) + torch.rsqrt(s * s + 1) + s.sin(),
    division=lambda s, b, h, q, k: 1 / (s * s + 1) + s / (h + 1) + 7 / (k + 1) + torch.reciprocal(s.abs() + 2) + s / 8,
    casts=lambda s, b, h, q, k: s.to(torch.bfloat16).float() * (q > k) + (s > 0).int() + k.half() * s.double().to(torch.float16).type_as(s),
    shared=lambda s, b, h, q, k: (s * 0.5 + k) * (s * 0.5 + k) + torch.abs(s * 0.5 + k),
    constants=lambda s, b, h, q, k: (
        s * torch.full_like(s, 1e-7) + torch.zeros_like(s) + torch.ones_like(q) + torch.tensor(3) + s.new_ones(())
    ),
    signs=lambda s, b, h, q, k: torch.sign(s) + torch.sign(q - k) * s + torch.isfinite(s) + torch.isnan(s) + s.masked_fill(q > k, 2),
    alpha=lambda s, b, h, q, k: torch.add(s, q, alpha=2) - torch.sub(k, 3, alpha=2) + torch.rsub(s, 1) + torch.lerp(s, s * 2, 0.25),
    nested=lambda s, b, h, q, k: torch.where(q < 3, torch.where(s > 0, s, -s), torch.where(k > 9, 2 * s, 0)),
    trigonometry=lambda s, b, h, q, k: torch.sin(torch.cos(s)) + torch.tan(b) + torch.expm1(s * 1e-3) + torch.special.expm1(s),
    loop=lambda s, b, h, q, k: functools.reduce(lambda total, i: torch.where(k == i, total + i, total), range(40), s),
    where_methods=lambda s, b, h, q, k: s.where(q > k, 2.0 * s) + GAIN.where(q > k + 1, s),
    logical=lambda s, b, h, q, k: torch.where(torch.logical_or(s > 0, torch.logical_not(q)), s * 3, s - 1),
)
# Masks of section 2.
cases(
    "mask",
    causal=lambda b, h, q, k: q >= k,
    offset=lambda b, h, q, k: q + 8 >= k,
    window=lambda b, h, q, k: (q >= k) & (q - k <= 5),
    symmetric=lambda b, h, q, k: (q - k).abs() <= 4,
    dilated=lambda b, h, q, k: ((q - k) % 3 == 0) & (q - k >= -9),
    chunked=lambda b, h, q, k: (q // 7 == k // 7) & (q >= k),
    strided=lambda b, h, q, k: (q >= k) & ((q - k < 8) | ((q - k) % 8 == 0)),
    sinks=lambda b, h, q, k: (k <= q) & ((q - k < 6) | (k < 4)),
    block_diagonal=lambda b, h, q, k: torch.div(q, 12, rounding_mode="floor") == torch.div(k, 12, rounding_mode="floor"),
    xor=lambda b, h, q, k: (q ^ k) & 5 == 4,
    hash=lambda b, h, q, k: ((q * 2654435761 + k * 40503) >> 13) & 3 != 0,
    natten=lambda b, h, q, k: ((q // 8 - k // 8).abs() <= 1) & ((q % 8 - k % 8).abs() <= 2),
    natten_clamped=lambda b, h, q, k: ((q % 8).clamp(2, 5) - k % 8).abs() <= 2,
    axial=lambda b, h, q, k: (q % 8 == k % 8) | (q // 8 == k // 8),
    padding=lambda b, h, q, k: k < LENGTHS[b],
    prefix=lambda b, h, q, k: (k < PREFIX[b]) | (q >= k),
    window_of_head=lambda b, h, q, k: (q - k < (h + 1) * 4) & (q >= k),
    documents=lambda b, h, q, k: (DOCUMENTS[q] == DOCUMENTS[k]) & (q >= k),
    jagged=lambda b, h, q, k: (k - OFFSETS[DOCUMENTS[q] % 4] >= 0) & (k < OFFSETS[DOCUMENTS[q] % 4 + 1]),
    dense=lambda b, h, q, k: VISIBLE[q, k],
    tree=lambda b, h, q, k: (ANCESTORS[q] >> k) & 1 == 1,
    tree_of_words=lambda b, h, q, k: (ANCESTORS[q] & (1 << (k & 31))) != 0,
    block_diffusion=lambda b, h, q, k: torch.where(
        k < 24, torch.where(q < 24, q // 4 == k // 4, (q - 24) // 4 > k // 4), (q >= 24) & ((q - 24) // 4 >= (k - 24) // 4)
    ),
    composed=flex.and_masks(lambda b, h, q, k: q >= k, flex.or_masks(lambda b, h, q, k: k < 3, lambda b, h, q, k: q - k < h)),
    none=lambda *position: flex.noop_mask(*position),
    plain=lambda b, h, q, k: True,
    # Rules of types: PyTorch's bools, integers and shifts.
    bools=lambda b, h, q, k: ((q > k) + (q > 3) * (k > 3)) ^ ~(h == 1),
    sums=lambda b, h, q, k: (q > k) + 1 == 2,
    floats=lambda b, h, q, k: q / 4 > k / 3,
    int_against_float=lambda b, h, q, k: (q > 3.5) & (k * 0.5 <= q) & (k < 1e3),
    negative=lambda b, h, q, k: ((q - k) // 5 + (q - k) % -3 + (k - 30) // (q + 1) + (q - k) // -4) % 2 == 0,
    truncated=lambda b, h, q, k: torch.div(q - k, 4, rounding_mode="trunc") + torch.fmod(q - k, 3) + ((q - k) / 4).int() > 1,
    longs=lambda b, h, q, k: (LENGTHS[b] - 40) // (k - 20 - 100) + (LENGTHS[b] - 50) % 7 + (LENGTHS[b] - 40).abs() > q.long() % 9,
    long_extrema=lambda b, h, q, k: torch.minimum(LENGTHS[b], k) + torch.maximum(k, LENGTHS[b] - 8).clamp(max=40) > q + 40,
    shifts=lambda b, h, q, k: ((k - 60 >> q) + (3 << k - 10) + (k << 2) + (k - q >> k - 20) + (5 >> 40)) % 3 == 1,
    long_shifts=lambda b, h, q, k: (ANCESTORS[q] << k + 30) + (ANCESTORS[q] >> 70) > 2**40,
    powers=lambda b, h, q, k: (2 ** (h - 1)) + q**2 - torch.pow(k, 3) > 5,
    complement=lambda b, h, q, k: (~q + k) & 3 == 1,
    unsigned=lambda b, h, q, k: (SMALL[k] > 100) | (SMALL[q] == 7),
    logical=lambda b, h, q, k: torch.logical_and(q, k - 3) & torch.logical_xor(q > k, h),
    compared=lambda b, h, q, k: torch.eq(q, k) | torch.gt(q, 9) & torch.le(k, 5) | ((q > k) == (k > 5)),
    methods=lambda b, h, q, k: q.ge(k).logical_and(k.ne(4)).bitwise_or(k.eq(9)),
    of_wide_constants=lambda b, h, q, k: (q < 2**31 - 1) & (k > -(2**31)),
    slices=lambda b, h, q, k: (RELATIVE[h, 3:][q % 30] > 0) & (RELATIVE[..., 5][h] < 1) & (RELATIVE[:, k % 33][h] < 1),
    views=lambda b, h, q, k: (PARAMETER[0][h] > 0) | (PARAMETER[-1, h] > PARAMETER[..., h][1]),
    morton=lambda b, h, q, k: (spread(q) | (spread(k) << 1)) // 64 % 2 == 0,
    numpy_index=lambda b, h, q, k: RELATIVE[h, KEY_LIST[3] - KEY_LIST[1]] > RELATIVE[h, k // 2],
    safe_index=lambda b, h, q, k: torch.where(k < 20, VISIBLE[q, torch.where(k < 20, k, 0)], False),
    reflected=lambda b, h, q, k: (True & VISIBLE[1, 1]) | (1 << q % 5) + (3 - q) // (8 // (k + 1) + 1) - 7 % (k + 1) > 2**h,
    overload=lambda b, h, q, k: torch.ops.aten.bitwise_and.Tensor(q, k) > torch.ops.aten.abs(q - 20),
    scalar_index=lambda b, h, q, k: SLOPES[PREFIX[0] % 4] < KEY_BIAS[b][k] + KEY_BIAS[b, ...][k],
    own_tensor=lambda b, h, q, k: torch.arange(HEADS).flip(0)[h] * 5 > q,
    table_class=lambda b, h, q, k: scores.Table(RELATIVE)[h, q % 33] > scores.Table(RELATIVE)[1][k % 33],
)
cases(
    "bias",
    distance=lambda b, h, q, k: -0.5 * (h + 1) * (q - k).abs(),
    of_bool=lambda b, h, q, k: q > k,
    of_int=lambda b, h, q, k: q * 3 - k,
    infinite=lambda b, h, q, k: torch.where(q > k, math.inf, -math.inf),
    zero=lambda b, h, q, k: 0,
    many_terms=lambda b, h, q, k: sum((SLOPES[h] * i - k) * (q + i) for i in range(60)),
)


@case
def bias_t5(b: Any, h: Any, q: Any, k: Any) -> Any:
    distance = (q - k).abs()
    far = 8 + (torch.log(distance.float() / 8 + 1e-6) / math.log(128 / 8) * 8).to(torch.int32)
    bucket = torch.where(distance < 8, distance, torch.clamp(far, max=15))
    return BUCKETS[bucket + torch.where(k > q, 16, 0), h]


class Model:
    def __init__(self) -> None:
        self.bias = table(HEADS)

    def mod(self, scale: float, s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return s * scale + self.bias[h]


cases("mod", of_an_object=functools.partial(Model().mod, 2.0))


def ids() -> list[str]:
    return [function.__name__ for _, function in CASES]


def ids_of(captures: Any) -> list[tuple[str, int, str]]:
    return [(capture.name, capture.dims, capture.dtype) for capture in captures]


TRACE = {"mod": scores.trace_mod, "mask": scores.trace_mask, "bias": scores.trace_bias}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    folder: pathlib.Path = tmp_path_factory.mktemp("texts")
    return Oracle(folder, [(kind, TRACE[kind](function)) for kind, function in CASES])


GRID = list(itertools.product(range(BATCH), range(HEADS), (0, 1, 2, 3, 7, 20, 39), (0, 1, 3, 4, 9, 20, 30, 47)))
SCORES = [(-3.0, -1.0, -0.5, 0.25, 0.5, 1.0, 2.5, 4.75, 0.0)[i % 9] for i in range(len(GRID))]


def of_torch(kind: str, function: Any, position: tuple[int, ...], score: float) -> tuple[float, float]:
    at = [torch.tensor(x, dtype=torch.int32) for x in position]
    if kind != "mod":
        return float(torch.as_tensor(function(*at)).detach()), 0.0
    s = torch.tensor(score, requires_grad=True)
    value = function(s, *at)
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return float(value), 0.0
    slope = torch.autograd.grad(value, s, allow_unused=True)[0]
    return float(value.detach()), 0.0 if slope is None else float(slope)


@pytest.mark.parametrize("number", range(len(CASES)), ids=ids())
def test_text_computes_what_torch_does(oracle: Oracle, number: int) -> None:
    kind, function = CASES[number]
    values, slopes = oracle.run(number, GRID, SCORES)
    for i, (position, score) in enumerate(zip(GRID, SCORES)):
        value, slope = of_torch(kind, function, position, score)
        if kind == "mask":
            assert values[i] == value, (position, score)
        assert values[i] == pytest.approx(value, rel=3e-5, abs=3e-6), (position, score)
        assert slopes[i] == pytest.approx(slope, rel=1e-4, abs=1e-5), (position, score)


def test_views_of_the_same_elements_are_one_capture() -> None:
    captures = scores.Captures()
    mod = scores.trace_mod(lambda s, b, h, q, k: s + RELATIVE[0][k] + RELATIVE[0, q] + RELATIVE[1:][0, k] + RELATIVE[1][q], captures)
    assert ids_of(mod.captures) == [("c0", 1, "float32"), ("c1", 1, "float32")]
    scores.trace_mask(lambda b, h, q, k: (RELATIVE[0][k] > 0) & (RELATIVE[h, k] > RELATIVE.detach()[h, q]), captures)
    assert ids_of(captures) == [("c0", 1, "float32"), ("c1", 1, "float32"), ("c2", 2, "float32")]


def test_a_parameter_and_its_detached_view_are_two_captures() -> None:
    traced = scores.trace_bias(lambda b, h, q, k: PARAMETER[b, h] + PARAMETER.detach()[b, h])
    assert [capture.tensor.requires_grad for capture in traced.captures] == [True, False]
    assert traced.captures[0].tensor is PARAMETER


def test_numbers_made_by_the_function_are_no_captures() -> None:
    traced = scores.trace_mod(
        lambda s, b, h, q, k: s * torch.tensor(0.5, device=s.device) + torch.full((), 2, dtype=s.dtype) + torch.zeros(())
    )
    assert (traced.text, traced.captures) == ("return score * 0.5f + 2.0f;", ())
    assert ids_of(scores.trace_bias(lambda b, h, q, k: GAIN * q).captures) == [("c0", 0, "float32")]


def test_tracing_leaves_torch_alone() -> None:
    with pytest.raises(fa2.InvalidRequest):
        scores.trace_bias(lambda b, h, q, k: q if q else k)
    assert torch.tensor(0.5).dtype is torch.float32
    assert SLOPES[torch.tensor(1)] == SLOPES[1]


REFUSED: dict[str, Callable[..., Any]] = {
    "function = matmul": lambda s, b, h, q, k: SLOPES @ s,
    "function = gather": lambda s, b, h, q, k: s + SLOPES.gather(0, h),
    "function = sum": lambda s, b, h, q, k: torch.sum(s),
    "function = stack": lambda s, b, h, q, k: torch.stack([s, s]),
    "random numbers before the call": lambda s, b, h, q, k: s + torch.rand_like(s),
    "function = randn": lambda s, b, h, q, k: s + torch.randn(()),
    "operation = in place": lambda s, b, h, q, k: torch.relu_(s),
    "x.clamp(...) for": lambda s, b, h, q, k: s.clamp_(0, 1),
    "write x = x + y": lambda s, b, h, q, k: TEMPORARY.__setitem__(h, s),
    "must be Tensor, not int": lambda s, b, h, q, k: torch.maximum(s, 3),
    "shape = (4,)": lambda s, b, h, q, k: s * SLOPES,
    "shape = (4, 33)": lambda s, b, h, q, k: torch.where(q > k, s, RELATIVE),
    "shape = (33,)": lambda s, b, h, q, k: s + RELATIVE[h],
    "float64": lambda s, b, h, q, k: s + SLOPES.double()[h],
    "complex64": lambda s, b, h, q, k: s + SLOPES.to(torch.complex64)[h],
    "dtype = complex64": lambda s, b, h, q, k: s.to(torch.complex64),
    "operand.shape = (4,)": lambda s, b, h, q, k: s + RELATIVE[torch.arange(4), k],
    "max = over": lambda s, b, h, q, k: torch.max(s, 0),
    "size = (3,)": lambda s, b, h, q, k: s.new_zeros((3,)),
    "function = contains": lambda s, b, h, q, k: torch.where(k in SLOPES, s, 0),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_name_the_line(text: str) -> None:
    with pytest.raises(fa2.InvalidRequest) as caught:
        scores.trace_mod(REFUSED[text])
    assert f"{__file__}:{REFUSED[text].__code__.co_firstlineno}: " in str(caught.value)
    assert text in str(caught.value)
    assert ", must " in str(caught.value)
