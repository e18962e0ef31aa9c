"""Makes a batch like a server's, with packed queries and with keys in scattered pages, and its attention in float64."""

from __future__ import annotations

import inspect
import json
import pathlib
from typing import Any, NamedTuple

import pytest
import reference

torch = pytest.importorskip("torch")

HEADS, HEADS_KV, HEAD_DIM, PAGE = 4, 2, 64, 16
#: (queries, keys with them) of a prefill, a prompt's later part, decoding and speculation.
LENGTHS = ((21, 21), (9, 40), (1, 33), (1, 1), (3, 50))


class Batch(NamedTuple):
    """A batch. k, v: (pages, PAGE, HEADS_KV, HEAD_DIM), interleaved in one memory as in vLLM; keys, values: per sequence."""

    q: Any
    k: Any
    v: Any
    keys: list[Any]
    values: list[Any]
    cu_seqlens_q: Any
    seqused_k: Any
    page_table: Any
    max_seqlen_q: int
    max_seqlen_k: int


def int32(values: Any) -> Any:
    return torch.tensor(values, dtype=torch.int32)


def cache_of(batch: Batch) -> Any:
    """Returns the cache as vLLM stores it, (pages, HEADS_KV, PAGE, 2 HEAD_DIM). batch.k and batch.v are views of it."""
    return batch.k._base


def make(lengths: tuple[tuple[int, int], ...] = LENGTHS, seed: int = 0) -> Batch:
    torch.manual_seed(seed)
    counts, keys = zip(*lengths)
    borders = [sum(counts[:i]) for i in range(len(counts) + 1)]
    longest = -(-max(keys) // PAGE) + 1
    cache = torch.randn(len(lengths) * longest + 3, HEADS_KV, PAGE, 2 * HEAD_DIM, dtype=torch.float16)
    k, v = cache.transpose(1, 2).split(HEAD_DIM, -1)
    table = torch.randperm(cache.shape[0])[: len(lengths) * longest].reshape(len(lengths), longest)
    own = [[x[table[b]].flatten(0, 1)[:n] for b, n in enumerate(keys)] for x in (k, v)]
    q = torch.randn(borders[-1], HEADS, HEAD_DIM, dtype=torch.float16)
    return Batch(q, k, v, *own, int32(borders), int32(keys), table.int(), max(counts), max(keys))


def with_8_bits(batch: Batch, k_factor: Any, v_factor: Any) -> Batch:
    """Returns the batch with a cache of float8_e4m3fn. Its keys and values are those numbers times a factor, one or per head."""
    stored = cache_of(batch).to(torch.float8_e4m3fn)
    k, v = stored.transpose(1, 2).split(HEAD_DIM, -1)
    own = ((batch.keys, k_factor), (batch.values, v_factor))
    real = [[x.to(stored.dtype).double() * torch.as_tensor(factor).reshape(-1, 1) for x in rows] for rows, factor in own]
    return batch._replace(k=k, v=v, keys=real[0], values=real[1])


def expect(batch: Batch, out: Any, lse: Any = None, **options: Any) -> None:
    """Compares out (total, HEADS, HEAD_DIM) and lse (HEADS, total) with reference.attention() of each sequence."""
    borders = batch.cu_seqlens_q.tolist()
    for b, (begin, end) in enumerate(zip(borders, borders[1:])):
        wanted, wanted_lse = reference.attention(batch.q[begin:end], batch.keys[b], batch.values[b], **options)
        torch.testing.assert_close(out[begin:end].double(), torch.from_numpy(wanted), atol=3e-3, rtol=3e-3)
        if lse is not None:
            torch.testing.assert_close(lse[:, begin:end].double(), torch.from_numpy(wanted_lse), atol=3e-3, rtol=1e-3)


def recorded(library: str) -> list[tuple[str, list[str]]]:
    """Returns (function, keywords) pairs of calls.json."""
    calls = json.loads(pathlib.Path(__file__).with_name("calls.json").read_text())[library]["calls"]
    return [(name, given.split(", ")) for name, kinds in calls.items() for given in kinds]


def unknown(function: Any, given: list[str]) -> set[str]:
    """Returns the keywords in `given` that the function does not take. Raises if the function requires others."""
    bound = inspect.signature(function).bind(**dict.fromkeys(given))
    return {name for kind in ("others", "options") for name in bound.arguments.get(kind, {})}
