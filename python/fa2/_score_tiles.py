"""Captures with an element per score, of which kernels fetch tiles: found among tensors that texts read at the score's own position."""

from __future__ import annotations

import re
from typing import Any

from . import _core, _hooks, _score_numbers, _score_tensors
from ._call import CAPTURES, SCORE_TEXT, replaced

#: What a text may read of a capture at, besides query and key.
_BEFORE = r"(?:(at\.batch)\s*,\s*)?(?:(at\.head)\s*,\s*)?"
_FLOATS = tuple(_hooks.DTYPES[name] for name in ("float16", "bfloat16", "float32"))


class _Candidate:
    """A capture that may have an element per score, if a call's tensor fits."""

    def __init__(self, index: int, reads: re.Pattern[str], has_batch: bool, has_head: bool) -> None:
        self.index, self.reads = index, reads
        new = [None if not has else slice(None) for has in (has_batch, has_head)]
        self._view = (*new, slice(None), slice(None)) if None in new else None

    def view(self, tensor: Any) -> Any:
        """Returns the tensor with four dimensions."""
        return tensor if self._view is None else tensor[self._view]


def _candidates_of(number: int) -> list[_Candidate]:
    """Returns the captures of a text that a bias or a mod reads, and all its texts at the score's own position alone."""
    specs, texts = _hooks.capture_specs.get(number, ()), list(_score_numbers.texts_of(number).values())
    found = []
    for index, (name, dtype, dimensions) in enumerate(specs):
        if dtype not in _FLOATS or dimensions < 2 or name not in _score_numbers.words_of_scores(number):
            continue
        reads = re.compile(rf"\b{name}\s*\(\s*{_BEFORE}at\.query\s*,\s*at\.key\s*\)")
        places = {x.groups() for text in texts for x in reads.finditer(text)}
        count = sum(len(reads.findall(text)) for text in texts)
        if len(places) != 1 or count != sum(len(re.findall(rf"\b{name}\b", text)) for text in texts):
            continue
        ((batch, head),) = places
        if 2 + (batch is not None) + (head is not None) == dimensions:
            found.append(_Candidate(index, reads, batch is not None, head is not None))
    return found


#: By numbers of texts.
_candidates: dict[int, list[_Candidate]] = {}
#: By numbers of texts, and indices of captures that have an element per score: numbers of texts that read them so.
_tiled: dict[tuple[int, tuple[int, ...]], int] = {}


def _tiled_number(number: int, chosen: tuple[_Candidate, ...]) -> int:
    key = number, tuple(x.index for x in chosen)
    if key not in _tiled:
        specs = list(_hooks.capture_specs[number])
        texts = _score_numbers.made(number)
        for candidate in chosen:
            name, dtype, _ = specs[candidate.index]
            specs[candidate.index] = name, dtype, _score_numbers.PER_SCORE
            instead = {part: (candidate.reads.sub(f"{name}(at)", text[0]), *text[1:]) for part, text in texts.given().items()}
            texts = texts.replaced(instead)
        _tiled[key] = _score_numbers.number_of(texts, tuple(specs))
    return _tiled[key]


def with_tiles(options: Any, q: Any, k: Any) -> Any:
    """Returns the options with texts that read tensors of an element per score as such, where sizes, strides and addresses fit.

    q and k: (batch, seqlen, heads, head_dim), or packed. options: a tuple like Options.
    """
    number = options[SCORE_TEXT]
    if number is None or not _known_candidates(number):
        return options
    sizes = _score_tensors.sizes_of(q, k, options)
    return options if sizes is None else with_tiles_of(options, sizes)


def _known_candidates(number: int) -> list[_Candidate]:
    if number not in _candidates:
        _candidates[number] = _candidates_of(number)
    return _candidates[number]


def with_tiles_of(options: Any, sizes: _score_tensors.Sizes) -> Any:
    """Returns with_tiles() of a call with these sizes."""
    number = options[SCORE_TEXT]
    candidates = _known_candidates(number)
    if not candidates or not all(type(n) is int for n in sizes):
        return options
    captures = list(options[CAPTURES])
    chosen = []
    for candidate in candidates:
        view = candidate.view(captures[candidate.index])
        if _core.fits_per_score(view, sizes):
            captures[candidate.index] = view
            chosen.append(candidate)
    if not chosen:
        return options
    return replaced(options, score_text=_tiled_number(number, tuple(chosen)), captures=tuple(captures))
