"""Random calls, most of them wrong: python fuzz_calls.py FIRST_SEED CALLS

fa2 must either reject a call with one of its errors and change no byte, or write nothing but its outputs. A call that
was not spoilt must match a reference. Arrays end at pages that fault. Each call's seed is printed first, so the last
line of a killed process names the call that killed it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import reference
from guarded import Memory, Watch

import fa2

try:
    from ml_dtypes import float8_e4m3fn
except ImportError:
    float8_e4m3fn = None

PAGE = 4
MEMORIES = [Memory(16) for _ in range(20)]
#: Rejections that are bugs all the same.
FAULTS = (fa2.KernelFault, fa2.InternalError, fa2.CompileError, fa2.CudaError)


class Call(NamedTuple):
    run: Callable[..., Any]
    arrays: dict[str, Any]
    numbers: dict[str, Any]
    outputs: tuple[str, ...]
    check: Callable[[Any, Any], None] | None


class Maker:
    """Makes the arrays of one call, each in its own memory."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.used: list[Memory] = []

    def raw(self, shape: Any, dtype: Any = np.float16, plain: bool = False) -> Any:
        memory = MEMORIES[len(self.used)]
        self.used.append(memory)
        order = tuple(range(len(shape)))
        if not plain and len(order) > 2 and self.draw.random() < 0.3:
            outer = list(order[:-1])
            self.draw.shuffle(outer)
            order = (*outer, order[-1])
        gap = 16 // np.dtype(dtype).itemsize if not plain and len(order) > 1 and self.draw.random() < 0.2 else 0
        return memory.array(tuple(shape), dtype, order, gap, self.draw.getrandbits(32))

    def normal(self, *shape: int, dtype: Any = np.float16, plain: bool = False) -> Any:
        array = self.raw(shape, dtype, plain)
        array[...] = np.random.default_rng(self.draw.getrandbits(32)).standard_normal(shape)
        return array

    def ints(self, values: Any, dtype: Any = np.int32) -> Any:
        values = np.asarray(values, dtype)
        array = self.raw(values.shape, dtype, plain=True)
        array[...] = values
        return array


def borders(lengths: list[int]) -> list[int]:
    return [sum(lengths[:i]) for i in range(len(lengths) + 1)]


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, atol=6e-3, rtol=6e-3)


def attention(make: Maker) -> Call:
    """Makes a dense, packed or paged call. There are few combinations of traits, because each compiles a kernel."""
    draw = make.draw
    kind = draw.choice(("dense", "packed", "paged"))
    batch, heads_kv, dim_v = draw.randint(1, 3), draw.choice((1, 2)), draw.choice((8, 16))
    heads = heads_kv * draw.choice((1, 2))
    has_8_bits = float8_e4m3fn is not None and dim_v == 16 and draw.random() < 0.4
    kv_dtype = float8_e4m3fn if has_8_bits else np.float16
    queries = [draw.randint(1, 9) for _ in range(batch)]
    keys = [draw.randint(1, 14) for _ in range(batch)]
    if kind == "dense":
        queries, keys = [queries[0]] * batch, [keys[0]] * batch
    causal = draw.random() < 0.5
    numbers: dict[str, Any] = {"causal": causal, "return_lse": draw.random() < 0.5}
    arrays: dict[str, Any] = {}
    if kind == "packed":
        arrays["q"] = make.normal(sum(queries), heads, 16)
        arrays["cu_seqlens_q"] = make.ints(borders(queries))
        numbers["max_seqlen_q"] = max(queries)
    else:
        queries = [queries[0]] * batch
        arrays["q"] = make.normal(batch, queries[0], heads, 16)
    if kind == "paged":
        columns = -(-max(keys) // PAGE)
        table = np.random.default_rng(draw.getrandbits(32)).permutation(batch * columns + 2)[: batch * columns]
        arrays["k"] = make.normal(batch * columns + 2, PAGE, heads_kv, 16, dtype=kv_dtype)
        arrays["v"] = make.normal(batch * columns + 2, PAGE, heads_kv, dim_v, dtype=kv_dtype)
        arrays["page_table"] = make.ints(table.reshape(batch, columns))
        arrays["seqused_k"] = make.ints(keys)
    elif kind == "packed":
        arrays["k"] = make.normal(sum(keys), heads_kv, 16, dtype=kv_dtype)
        arrays["v"] = make.normal(sum(keys), heads_kv, dim_v, dtype=kv_dtype)
        arrays["cu_seqlens_k"] = make.ints(borders(keys))
        numbers["max_seqlen_k"] = max(keys)
    else:
        arrays["k"] = make.normal(batch, keys[0], heads_kv, 16, dtype=kv_dtype)
        arrays["v"] = make.normal(batch, keys[0], heads_kv, dim_v, dtype=kv_dtype)
        if draw.random() < 0.3:
            arrays["sinks"] = make.normal(heads, dtype=np.float32)
    arrays["out"] = make.raw((*arrays["q"].shape[:-1], dim_v))
    if kind == "packed" and draw.random() < 0.3:
        arrays["alibi_slopes"] = make.normal(heads, dtype=np.float32)

    for name in ("k_descale", "v_descale") if has_8_bits else ():
        if draw.random() < 0.7:
            arrays[name] = make.normal(batch, heads_kv, dtype=np.float32)

    def factors(name: str, b: int) -> Any:
        return arrays[f"{name}_descale"][b, :, None].astype(np.float64) if f"{name}_descale" in arrays else 1.0

    def sequence(name: str, b: int) -> Any:
        array, lengths = arrays[name], queries if name in ("q", "out") else keys
        if kind == "packed":
            return array[borders(lengths)[b] : borders(lengths)[b + 1]]
        if kind == "paged" and name in "kv":
            return array[arrays["page_table"][b]].reshape(-1, *array.shape[2:])[: lengths[b]]
        return array[b]

    def check(result: Any, given: Any) -> None:
        options = {"mask": "bottom_right" if causal else None}
        for name, option in (("alibi_slopes", "slopes"), ("sinks", "sinks")):
            if name in arrays:
                options[option] = arrays[name]
        for b in range(batch):
            operands = (sequence(x, b).astype(np.float64) * factors(x, b) for x in "qkv")
            wanted, _ = reference.attention(*operands, **options)
            close(sequence("out", b), wanted)

    return Call(fa2.attention, arrays, numbers, ("out",), check)


def append(make: Maker) -> Call:
    draw = make.draw
    batch, heads, dim_v, rows = draw.randint(1, 3), draw.choice((1, 2)), draw.choice((8, 16)), draw.randint(1, 3)
    capacity, paged = 12, draw.random() < 0.4
    begins = [draw.randint(0, capacity - rows) for _ in range(batch)]
    shape = (batch * capacity // PAGE + 1, PAGE) if paged else (batch + 1, capacity)
    has_8_bits = float8_e4m3fn is not None and dim_v == 16 and draw.random() < 0.4
    kv_dtype = float8_e4m3fn if has_8_bits else np.float16
    arrays = {
        "k": make.normal(batch, rows, heads, 16),
        "v": make.normal(batch, rows, heads, dim_v),
        "k_cache": make.normal(*shape, heads, 16, dtype=kv_dtype),
        "v_cache": make.normal(*shape, heads, dim_v, dtype=kv_dtype),
        "cache_seqlens": make.ints(begins),
    }
    if paged:
        table = np.random.default_rng(draw.getrandbits(32)).permutation(shape[0])[: batch * capacity // PAGE]
        arrays["page_table"] = make.ints(table.reshape(batch, -1))
    elif draw.random() < 0.4:
        arrays["cache_batch_idx"] = make.ints(draw.sample(range(batch + 1), batch))
    for name in ("k_descale", "v_descale") if has_8_bits else ():
        if draw.random() < 0.7:
            arrays[name] = make.ints([[draw.uniform(0.5, 2) for _ in range(heads)] for _ in range(batch)], np.float32)
    turns = draw.random() < 0.4
    if turns:
        angles = np.random.default_rng(draw.getrandbits(32)).uniform(-3, 3, (capacity + 2, 8)).astype(np.float32)
        arrays["rotary_cos"] = make.ints(np.cos(angles), np.float32)
        arrays["rotary_sin"] = make.ints(np.sin(angles), np.float32)
        arrays["q"] = make.normal(batch, rows, heads * 2, 16)

    def turned(x: Any, first: int) -> Any:
        x = x.astype(np.float64)
        if not turns:
            return x
        c, s = (arrays[name][first : first + rows, None, :] for name in ("rotary_cos", "rotary_sin"))
        a, b = x[..., :8], x[..., 8:]
        return np.concatenate([a * c - b * s, a * s + b * c], -1)

    def cached(name: str, b: int) -> Any:
        cache = arrays[name]
        if paged:
            return cache[arrays["page_table"][b]].reshape(-1, *cache.shape[2:])
        return cache[arrays["cache_batch_idx"][b] if "cache_batch_idx" in arrays else b]

    def expect(name: str, b: int, wanted: Any) -> None:
        found = cached(f"{name}_cache", b)[begins[b] : begins[b] + rows]
        if not has_8_bits:
            return close(found, wanted)
        factors = arrays[f"{name}_descale"][b, :, None] if f"{name}_descale" in arrays else 1.0
        np.testing.assert_allclose(found.astype(np.float64), wanted / factors, atol=1e-3, rtol=2**-4 + 1e-3)

    def check(result: Any, given: Any) -> None:
        for b, first in enumerate(begins):
            expect("k", b, turned(arrays["k"][b], first))
            expect("v", b, arrays["v"][b])
            if turns:
                close(result[b], turned(arrays["q"][b], first))

    return Call(fa2.append, arrays, {}, ("k_cache", "v_cache"), check)


def merge(make: Maker) -> Call:
    draw = make.draw
    parts, batch, rows, heads = (draw.randint(1, 3) for _ in range(4))
    lead = () if draw.random() < 0.4 else (batch,)
    dtype = draw.choice((np.float16, np.float32))
    arrays = {
        "out_parts": make.normal(parts, *lead, rows, heads, 16, dtype=dtype),
        "lse_parts": make.normal(parts, *lead, heads, rows, dtype=np.float32),
        "out": make.raw((*lead, rows, heads, 16)),
    }

    def check(result: Any, given: Any) -> None:
        weights = np.exp(arrays["lse_parts"].astype(np.float64))
        close(result[1], np.log(weights.sum(0)))
        shares = np.moveaxis(weights / weights.sum(0), -1, -2)[..., None]
        close(arrays["out"], (arrays["out_parts"] * shares).sum(0))

    return Call(fa2.merge, arrays, {}, ("out",), check)


def reshaped(make: Maker, array: Any) -> Any:
    """Returns an array with a different extent, rank or dtype."""
    draw = make.draw
    shape, dtype = list(array.shape), array.dtype
    kind = draw.choice(("extent", "extent", "extent", "rank", "dtype", "all"))
    if kind in ("extent", "all") and shape:
        i = draw.randrange(len(shape))
        shape[i] = draw.choice((0, 1, shape[i] - 1, shape[i] + 1, 2 * shape[i], 64))
    if kind in ("rank", "all"):
        shape = draw.choice((shape[1:], shape[:-1], [1, *shape], [*shape, 1], [*shape, 0], []))
    if kind in ("dtype", "all"):
        dtype = draw.choice((np.float16, np.float32, np.float64, np.int32, np.int64, np.uint8, np.dtype(">f2"), np.bool_))
    shape = [max(n, 0) for n in shape]
    if np.prod(shape, dtype=object) * 8 > MEMORIES[0].bytes.size - 4096:
        return array
    made = make.raw(shape, dtype)
    made[...] = np.random.default_rng(draw.getrandbits(32)).integers(0, 3, shape)
    return made


def spoilt(make: Maker, name: str, array: Any) -> Any:
    draw = make.draw
    if not isinstance(array, np.ndarray):
        return array
    kind = draw.choice(("shape", "shape", "shape", "none", "values", "strides", "flags", "kind"))
    if kind == "none":
        return None
    if kind == "values" and array.dtype == np.int32 and array.size and array.flags.writeable:
        array[tuple(draw.randrange(n) for n in array.shape)] = draw.choice((-1, 0, 1, 7, 100, 2**31 - 1, -(2**31)))
        return array
    if kind == "strides" and array.ndim:
        i = draw.randrange(array.ndim)
        cut = [slice(None)] * array.ndim
        cut[i] = draw.choice((slice(None, None, -1), slice(None, None, 2), slice(0, 1), slice(1, None), slice(0, 0)))
        if draw.random() < 0.3:
            return np.broadcast_to(array[tuple(slice(0, 1) if j == i else slice(None) for j in range(array.ndim))], array.shape)
        return array[tuple(cut)]
    if kind == "flags":
        array = array.view()
        array.flags.writeable = False
        return array
    if kind == "kind":
        return draw.choice((np.ma.masked_array(array, False), array.tolist(), 1.5, "text", np.float16(1)))
    return reshaped(make, array)


def spoil(call: Call, make: Maker) -> Call:
    draw = make.draw
    arrays, numbers = dict(call.arrays), dict(call.numbers)
    optional = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "page_table", "alibi_slopes", "k_descale", "v_descale")
    if call.run is fa2.append:
        optional = ("page_table", "cache_batch_idx", "cu_seqlens_new", "cu_seqlens_q", "rotary_seqlens")
    for _ in range(draw.choice((1, 1, 2, 3))):
        name = draw.choice(tuple(arrays))
        arrays[name] = spoilt(make, name, arrays[name])
        if call.run is not fa2.merge and draw.random() < 0.2:
            arrays[draw.choice(optional)] = make.ints([draw.randint(0, 3) for _ in range(draw.randint(0, 4))])
        if call.run is fa2.attention and draw.random() < 0.2:
            numbers[draw.choice(("max_seqlen_q", "max_seqlen_k"))] = draw.choice((None, 0, -1, 1, 5, 100, 2**31 - 1, 2**40))
    return call._replace(arrays=arrays, numbers=numbers, check=None)


def play(seed: int) -> str:
    """Makes one call. Returns "right", "inside" or "refused"."""
    draw = random.Random(seed)
    make = Maker(draw)
    call = draw.choice((attention, attention, append, merge))(make)
    if draw.random() < 0.8:
        call = spoil(call, make)
    watch = Watch(make.used)
    try:
        result = call.run(**call.arrays, **call.numbers)
    except FAULTS:
        raise
    except (fa2.Error, TypeError) as error:
        if call.check is not None:
            raise AssertionError("a call with nothing wrong was refused") from error
        watch.require([])
        return "refused"
    watch.require([call.arrays[name] for name in call.outputs if call.arrays.get(name) is not None])
    if call.check is None:
        return "inside"
    call.check(result, call)
    return "right"


def main() -> None:
    first, count = (int(x) for x in sys.argv[1:])
    told = {"right": 0, "inside": 0, "refused": 0}
    for seed in range(first, first + count):
        print(f"seed {seed}", flush=True)
        told[play(seed)] += 1
    print(" ".join(f"{name}={n}" for name, n in told.items()), flush=True)


if __name__ == "__main__":
    main()
