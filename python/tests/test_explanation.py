"""explain() returns a dict for programs that prints as text for people."""

from __future__ import annotations

import json

import numpy
import pytest

import fa2


@pytest.mark.parametrize("backward", [False, True])
def test_an_explanation_prints_as_text(backward: bool) -> None:
    q, k = numpy.zeros((1, 16, 2, 8), numpy.float16), numpy.zeros((1, 16, 1, 8), numpy.float16)
    found = fa2.explain(q, k, k, causal=True, window_size=(7, -1), backward=backward)
    assert isinstance(found, dict) and json.loads(json.dumps(found)) == found
    text = str(found)
    assert repr(found) == text and max(map(len, text.splitlines())) <= 80
    names = [line.split()[0] for line in text.splitlines() if not line.startswith(" ")]
    kernel = ["kernel", "origin", "config", "reason", "resources", "tiles"]
    assert names == ["problem", "device", *kernel * len(found["kernels"])]
    assert "heads 2/1" in text and "window_left=7" in text and "causal_bottom_right" in text
    assert len({line.index(line.split(maxsplit=1)[1]) for line in text.splitlines() if not line.startswith(" ")}) == 1
