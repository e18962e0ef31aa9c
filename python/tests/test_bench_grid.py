"""bench/grid.py draws its shapes within limits, counts their work, and sums up what was measured."""

from __future__ import annotations

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import grid  # noqa: E402
import grid_shapes  # noqa: E402


def test_pairs_are_those_of_the_mask() -> None:
    for queries in range(1, 9):
        for keys in range(queries, 14):
            for window in (-1, 0, 1, 3, 20):
                seen = [j - i - keys + queries for i in range(queries) for j in range(keys)]
                causal = [x for x in seen if x <= 0 and (window < 0 or x >= -window)]
                assert grid_shapes.pairs_of(queries, keys, True, window) == len(causal)
            assert grid_shapes.pairs_of(queries, keys, False, -1) == queries * keys


def test_shapes_follow_the_seed_and_stay_within_limits() -> None:
    shapes = grid_shapes.drawn_shapes("seed", 200, 50)
    assert shapes[:20] == grid_shapes.drawn_shapes("seed", 20, 0)
    assert shapes[200:] == grid_shapes.drawn_shapes("seed", 0, 50)
    assert shapes != grid_shapes.drawn_shapes("other", 200, 50)
    for shape in shapes:
        assert shape.memory() <= 16 << 30 and shape.flops() <= grid_shapes.MOST_FLOPS
        assert 1 <= shape.queries <= shape.keys and shape.heads_q % shape.heads_kv == 0
        assert all(1 <= keys <= shape.keys and keys >= min(shape.queries, shape.keys) for keys in shape.key_lengths())
        assert shape.lengths != "full" or not shape.page_size
    assert {shape.heads_q // shape.heads_kv for shape in shapes} == set(range(1, 17))


def test_regimes_are_summed_up_apart() -> None:
    rows, rng = [], random.Random(1)
    for number, shape in enumerate(grid_shapes.drawn_shapes("seed", 30, 10)):
        floor = max(shape.bytes() / 3e12, shape.flops() / 6e14) * 1e6
        rows.append(grid.row_of(number, shape, {"fa2": floor * rng.uniform(1, 1.2), "FA3": floor * 1.1}, {}, 3e12))
    rows.append(grid.row_of(40, shape, {"fa2": 1.0}, {"FA3": "refused"}, 3e12))  # no peer: in no mean
    lines = grid.summary(rows)
    assert [line.split(":")[0] for line in lines[:3]] == ["bandwidth", "other", "backward"]
    below = [row for row in rows if row["speed"] is not None and row["speed"] < 1]
    assert len(lines) == 3 + len(below)
    assert grid.svg(rows, {}).count("<circle") == 3 + 40
    assert len(grid.markdown(rows, {}).splitlines()) > 41
