"""Draws the shapes of bench/grid.py, and counts their work."""
import dataclasses
import math
import random

MOST_BYTES, MOST_FLOPS = 16 << 30, 20e12  # of a shape; 20 TFLOP take 30 ms


@dataclasses.dataclass
class Shape:
    backward: bool
    batch: int
    heads_q: int
    heads_kv: int
    queries: int
    keys: int
    d: int
    causal: bool
    window: int  # keys before a query's own; -1: all
    lengths: str  # full; or on the device: equal, lognormal
    page_size: int  # 0: none
    seed: int

    def key_lengths(self):
        """Returns the keys of each sequence."""
        if self.lengths != "lognormal":
            return [self.keys] * self.batch
        rng = random.Random(self.seed)
        least = min(self.keys, max(self.queries, 1))
        return [max(least, min(self.keys, int(self.keys * math.exp(rng.gauss(-1, 0.7))))) for _ in range(self.batch)]

    def pairs(self):
        """Returns the pairs of a query and a key that it sees, over all sequences of one head."""
        return sum(pairs_of(self.queries, keys, self.causal, self.window) for keys in self.key_lengths())

    def flops(self):
        return 4 * self.pairs() * self.heads_q * self.d * (2.5 if self.backward else 1)

    def bytes(self):
        """Returns the bytes that a kernel must move: every tensor once."""
        keys = sum(min(keys, self.window + self.queries) if self.window >= 0 else keys for keys in self.key_lengths())
        forward = 2 * self.d * (2 * keys * self.heads_kv + 2 * self.batch * self.queries * self.heads_q)
        return forward * 2 if self.backward else forward

    def memory(self):
        return 4 * self.d * self.batch * (self.keys * self.heads_kv + self.queries * self.heads_q) * (3 if self.backward else 1)

    def text(self):
        words = ["backward" if self.backward else "forward", f"{self.batch} x {self.queries}/{self.keys}",
                 f"heads {self.heads_q}/{self.heads_kv}", f"d {self.d}", "causal" if self.causal else "full"]
        words += [f"window {self.window}"] * (self.window >= 0) + [self.lengths] * (self.lengths != "full")
        return ", ".join(words + [f"pages {self.page_size}"] * (self.page_size > 0))


def pairs_of(queries, keys, causal, window):
    """Returns the pairs that a bottom-right causal mask and a window leave."""
    if not causal:
        return queries * keys
    first = keys - queries  # the last key of query 0
    full = queries * (first + 1) + queries * (queries - 1) // 2
    if window < 0:
        return full
    cut = [max(0, first + i - window) for i in (0, queries - 1)]  # keys that the window hides
    grows = min(queries, max(0, first + queries - 1 - window))
    return full - (queries * (cut[0] + cut[1]) // 2 if cut[0] else grows * (grows + 1) // 2)


def drawn_shape(rng, backward):
    log2 = lambda low, high: int(round(2 ** rng.uniform(math.log2(low), math.log2(high))))  # noqa: E731
    while True:
        heads_kv, group, keys = rng.choice((1, 2, 4, 8, 16)), rng.randint(1, 16), log2(256, 131072)
        queries = keys if backward else rng.choice((1, 2, 4, 16, 64, 128, 512, 2048, keys))
        page_size = 0 if backward else rng.choice((0, 0, 0, 1, 16, 64))
        lengths = rng.choice(("equal", "lognormal")) if page_size else rng.choice(("full", "full", "equal", "lognormal"))
        causal = rng.random() < 0.5
        window = rng.choice((128, 1024, 4096)) if causal and rng.random() < 0.25 else -1
        s = Shape(backward, log2(1, 256), heads_kv * group, heads_kv, queries, keys, rng.choice((64, 128, 256)), causal, window,
                  "full" if backward else lengths, page_size, rng.randrange(1 << 30))
        if s.queries <= s.keys and s.heads_q <= 128 and s.memory() <= MOST_BYTES and s.flops() <= MOST_FLOPS:
            return s


def drawn_shapes(seed, forward, backward):
    """Returns the shapes of a seed. More points do not change the first ones."""
    shapes = []
    for is_backward, count in ((False, forward), (True, backward)):
        rng = random.Random(f"{seed} {is_backward}")
        shapes += [drawn_shape(rng, is_backward) for _ in range(count)]
    return shapes
