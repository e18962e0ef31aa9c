"""Functions of scores and masks that models use, by name. They work on numbers that fa2 traces, and on tensors of all positions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

BATCH, HEADS, QUERIES, KEYS = 2, 2, 40, 48
FRAMES, ROWS, COLUMNS = 3, 4, 4  # keys as a video; as an image, 6 x 8
GENERATOR = torch.Generator().manual_seed(7)


def numbers(*sizes: int) -> Any:
    return torch.randn(sizes, generator=GENERATOR)


def integers(high: int, *sizes: int, dtype: Any = torch.int32) -> Any:
    return torch.randint(high, sizes, generator=GENERATOR).to(dtype)


SLOPES, BUCKETS, WINDOW_TABLE, CLAMPED = numbers(BATCH, HEADS), numbers(HEADS, 16), numbers(HEADS, 7, 7), numbers(HEADS, 17)
HOPS, BY_HOPS, EDGES = integers(5, BATCH, KEYS, KEYS), numbers(5, HEADS), numbers(BATCH, KEYS, KEYS).half()
DENSE, OF_KEYS, OF_QUERIES = numbers(HEADS, KEYS, KEYS).bfloat16(), numbers(BATCH, KEYS), numbers(HEADS, QUERIES)
OF_BATCH, GAINS, IS_ON = numbers(BATCH), numbers(HEADS), torch.tensor([True, False])


def sandwich(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    for i in range(4):
        s = s + torch.cos((q - k) / 100.0 ** (i / 4)) * 0.1
    return s


def t5_buckets(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    distance = (q - k).clamp(min=0)
    far = 8 + (torch.log(distance.clamp(min=1) / 8.0) / math.log(100 / 8) * 8).int()
    return s + BUCKETS[h, torch.where(distance < 8, distance, far.clamp(max=15))]


def swin(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return s + WINDOW_TABLE[h, q % 16 // 4 - k % 16 // 4 + 3, q % 4 - k % 4 + 3]


def rational_tanh(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    x = (s / 2).clamp(-3, 3)
    return 2 * x * (27 + x * x) / (27 + 9 * x * x)


SCORES: dict[str, Any] = {
    "alibi": lambda s, b, h, q, k: s - torch.exp2(-4.0 * (h + 1)) * abs(q - k),
    "relative distance": lambda s, b, h, q, k: s + (q - k) * 0.05,
    "squared distance": lambda s, b, h, q, k: s - 0.01 * (q - k) ** 2,
    "sandwich": sandwich,
    "kerple": lambda s, b, h, q, k: s - 0.7 * torch.log1p(0.3 * abs(q - k)),
    "decay": lambda s, b, h, q, k: s + abs(q - k) * torch.log(1 - torch.exp2(-3.0 - h)),
    "gaussian": lambda s, b, h, q, k: s - ((q - k) / 6.0).square() / 2,
    "learned slopes": lambda s, b, h, q, k: s + SLOPES[b, h] * (k - q) * 0.1,
    "t5 buckets": t5_buckets,
    "swin": swin,
    "clamped table": lambda s, b, h, q, k: s + CLAMPED[h, (k - q).clamp(-8, 8) + 8],
    "graphormer": lambda s, b, h, q, k: s + BY_HOPS[HOPS[b, q, k], h] + EDGES[b, q, k],
    "table of all": lambda s, b, h, q, k: s + DENSE[h, q, k],
    "key bias": lambda s, b, h, q, k: s + OF_KEYS[b, k],
    "query and key bias": lambda s, b, h, q, k: s + OF_QUERIES[h, q] * OF_KEYS[b, k],
    "batch bias": lambda s, b, h, q, k: s + OF_BATCH[b] * (k % 2),
    "head mask": lambda s, b, h, q, k: torch.where(IS_ON[h], s, -math.inf),
    "softcap": lambda s, b, h, q, k: 2.0 * torch.tanh(s / 2.0),
    "rational softcap": rational_tanh,
    "sigmoid": lambda s, b, h, q, k: functional.logsigmoid(s + 0.5),
    "gelu": lambda s, b, h, q, k: torch.log(functional.gelu(s) + 0.2),
    "relu": lambda s, b, h, q, k: torch.log(functional.relu(s) + 0.1),
    "head gain": lambda s, b, h, q, k: s * GAINS[h],
    "temperature": lambda s, b, h, q, k: s * (torch.log(torch.floor((q + 1) / 8.0) + 1) * 0.5 + 1),
    "squared": lambda s, b, h, q, k: s * s,
    "causal by where": lambda s, b, h, q, k: torch.where(q >= k, s + (k - q) * 0.1, float("-inf")),
}

LENGTHS, PREFIXES, WINDOWS = torch.tensor([31, 48]), torch.tensor([9, 0], dtype=torch.int32), torch.tensor([3, 20])
OFFSET, OFFSETS, FIRST = torch.tensor(5), torch.tensor([3, 8]), torch.tensor([6, 0])
DOCUMENTS = torch.stack([torch.arange(KEYS) // 11, torch.arange(KEYS) // 19])
BEGINS = torch.tensor([[0, 11, 22, 33, 44], [0, 19, 38, 0, 0]])
IMAGES = torch.tensor([0] * 5 + [1] * 9 + [0] * 10 + [2] * 14 + [0] * 10, dtype=torch.uint8).repeat(BATCH, 1)
MEDIA = integers(3, BATCH, QUERIES, dtype=torch.int16)
BRANCHES = (torch.arange(KEYS) - 16).div(8, rounding_mode="floor").clamp(min=0)
PARENTS = [max(0, (node - 1) // 2) for node in range(QUERIES)]
SCALES = torch.tensor([0] + [1] * 4 + [2] * 9 + [3] * 34, dtype=torch.int8)


def ancestors() -> Any:
    """Returns the keys that each node of a tree sees, as bits."""
    bits: list[int] = []
    for node, parent in enumerate(PARENTS):
        bits.append(1 << node | (bits[parent] if node else 0))
    return torch.tensor(bits)


ANCESTORS = ancestors()


def jumps(b: Any, h: Any, q: Any, k: Any) -> Any:
    distance = q - k
    return (distance >= 0) & ((distance & (distance - 1)) == 0)


def near(q: Any, k: Any, size: int, reach: int) -> Any:
    """Returns whether k is in a window around q, which the edges push inwards."""
    return abs(q.clamp(reach, size - 1 - reach) - k) <= reach


def natten_2d(b: Any, h: Any, q: Any, k: Any) -> Any:
    return near(q // 8, k // 8, 6, 1) & near(q % 8, k % 8, 8, 2)


def natten_3d(b: Any, h: Any, q: Any, k: Any) -> Any:
    frames, rows = near(q // 16, k // 16, FRAMES, 1), near(q // 4 % ROWS, k // 4 % ROWS, ROWS, 1)
    return frames & rows & near(q % COLUMNS, k % COLUMNS, COLUMNS, 1)


def tiles(b: Any, h: Any, q: Any, k: Any) -> Any:
    """Sliding tiles of 2 x 4 pixels."""
    return near(q // 16, k // 16, 3, 1) & (q % 8 // 4 == k % 8 // 4)


def morton(position: Any) -> tuple[Any, Any]:
    """Returns the row and the column of a position along a Morton curve."""
    row, column = position * 0, position * 0
    for bit in range(3):
        row = row | ((position >> (2 * bit + 1)) & 1) << bit
        column = column | ((position >> (2 * bit)) & 1) << bit
    return row, column


def morton_natten(b: Any, h: Any, q: Any, k: Any) -> Any:
    (row, column), (key_row, key_column) = morton(q), morton(k)
    return near(row, key_row, 8, 2) & near(column, key_column, 8, 2)


def video(b: Any, h: Any, q: Any, k: Any) -> Any:
    """Heads that look at one frame, and heads that look at one place."""
    return torch.where(h % 2 == 0, q // 16 == k // 16, abs(q % 16 - k % 16) <= 2)


def packed_causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    mine, other = DOCUMENTS[b, q], DOCUMENTS[b, k]
    return (mine == other) & (q - BEGINS[b, mine] >= k - BEGINS[b, other])


def block_diffusion(b: Any, h: Any, q: Any, k: Any) -> Any:
    """24 noisy tokens, then the same ones clean, in blocks of 4."""
    q_clean, k_clean, q_block, k_block = q >= 24, k >= 24, q % 24 // 4, k % 24 // 4
    within = (q_clean == k_clean) & (q_block == k_block)
    return within | (k_clean & torch.where(q_clean, q_block >= k_block, q_block > k_block))


MASKS: dict[str, Any] = {
    "causal": lambda b, h, q, k: q >= k,
    "bottom right": lambda b, h, q, k: q + (KEYS - QUERIES) >= k,
    "constant offset": lambda b, h, q, k: q - 4 >= k,
    "window": lambda b, h, q, k: (q >= k) & (q - k <= 6),
    "symmetric window": lambda b, h, q, k: abs(q - k) <= 5,
    "dilated": lambda b, h, q, k: (abs(q - k) <= 9) & ((q - k) % 3 == 0),
    "chunks": lambda b, h, q, k: (q >= k) & (q // 8 == k // 8),
    "strided": lambda b, h, q, k: (q >= k) & ((q - k < 6) | ((q - k) % 6 == 0)),
    "fixed": lambda b, h, q, k: (q >= k) & ((q // 6 == k // 6) | (k % 6 == 5)),
    "sinks and window": lambda b, h, q, k: (q >= k) & ((k < 4) | (q - k < 8)),
    "global and window": lambda b, h, q, k: (abs(q - k) <= 4) | (k < 3) | (q < 3),
    "a shape": lambda b, h, q, k: (q >= k) & ((k < 4) | (q - k < 6) | (q >= QUERIES - 6)),
    "jumps": jumps,
    "block diagonal": lambda b, h, q, k: q // 10 == k // 10,
    "xor": lambda b, h, q, k: ((q ^ k) & 5) == 1,
    "hash": lambda b, h, q, k: ((q * 7919 + k * 10477 + h * 31 + b * 17) >> 3) % 4 != 0,
    "natten 1d": lambda b, h, q, k: near(q, k, KEYS, 4),
    "natten 2d": natten_2d,
    "natten 3d": natten_3d,
    "sliding tiles": tiles,
    "video": video,
    "axial": lambda b, h, q, k: (q // 8 == k // 8) | (q % 8 == k % 8),
    "lengths": lambda b, h, q, k: k < LENGTHS[b],
    "prefix": lambda b, h, q, k: (k < PREFIXES[b]) | (q >= k),
    "window of heads": lambda b, h, q, k: (q >= k) & (q - k <= WINDOWS[h]),
    "context parallel": lambda b, h, q, k: q + OFFSET >= k,
    "cache": lambda b, h, q, k: q + OFFSETS[b] >= k,
    "documents": lambda b, h, q, k: DOCUMENTS[b, q] == DOCUMENTS[b, k],
    "packed causal": packed_causal,
    "jagged": lambda b, h, q, k: (q < LENGTHS[b]) & (k < LENGTHS[b]) & (q >= k),
    "left padding": lambda b, h, q, k: (k >= FIRST[b]) & (q >= k),
    "image blocks": lambda b, h, q, k: (q >= k) | ((IMAGES[b, q] == IMAGES[b, k]) & (IMAGES[b, q] > 0)),
    "flamingo": lambda b, h, q, k: MEDIA[b, q] == k // 16,
    "shared prefix": lambda b, h, q, k: (q >= k) & ((k < 16) | (BRANCHES[q] == BRANCHES[k])),
    "batchified": lambda b, h, q, k: (q // 13 == k // 13) & (q % 13 >= k % 13),
    "memory tokens": lambda b, h, q, k: (k < 6) | ((q >= k) & (q - k < 10)),
    "morton natten": morton_natten,
    "scales": lambda b, h, q, k: SCALES[q] >= SCALES[k],
    "block diffusion": block_diffusion,
    "tree": lambda b, h, q, k: (ANCESTORS[q] >> k) & 1 == 1,
}
