"""Texts of scores by the numbers that calls give for them."""

from __future__ import annotations

import re
from typing import NamedTuple

from . import _core, _hooks

PER_SCORE = -2  # dimensions of a capture that texts read as name(at)

#: A text with its file and line, as _core.make_score_text() takes it.
Text = tuple[str, str, int] | None


class Texts(NamedTuple):
    """What three arguments are together."""

    softcap: float | None  #: of a score_mod that is no more than that
    bias: Text
    mod: Text
    mod_slope: Text  #: of mod; None: derived from it
    mask: Text
    mask_block: tuple[int, int] = (1, 1)  #: queries and keys of the blocks in which the mask answers the same

    @property
    def are_empty(self) -> bool:
        return self.bias is self.mod is self.mask is None

    def given(self) -> dict[str, tuple[str, str, int]]:
        """Returns the texts that there are, by names of members."""
        texts = {"bias": self.bias, "mod": self.mod, "mod_slope": self.mod_slope, "mask": self.mask}
        return {name: text for name, text in texts.items() if text is not None}

    def replaced(self, texts: dict[str, tuple[str, str, int]]) -> Texts:
        """Returns these texts, of which those in `texts` are others."""
        return Texts(self.softcap, texts.get("bias"), texts.get("mod"), texts.get("mod_slope"), texts.get("mask"), self.mask_block)


_numbers: dict[tuple[Texts, tuple[tuple[str, int, int], ...]], int] = {}
_made: dict[int, Texts] = {}
_words_of_scores: dict[int, frozenset[str]] = {}  #: by numbers of texts, what bias and mod name
_per_score: dict[Texts, tuple[str, ...]] = {}


def made(number: int) -> Texts:
    """Returns what number_of() made the number of."""
    return _made[number]


def words_of_scores(number: int) -> frozenset[str]:
    """Returns the words of the bias and the mod of a number."""
    return _words_of_scores.get(number, frozenset())


def names_per_score(texts: Texts) -> tuple[str, ...]:
    """Returns the names that texts call with the whole position: pair(at)."""
    if texts not in _per_score:
        found = (name for text in texts.given().values() for name in re.findall(r"\b(\w+)\s*\(\s*at\s*\)", text[0]))
        _per_score[texts] = tuple(dict.fromkeys(found))
    return _per_score[texts]


names_per_score._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as that of number_of()


def texts_of(number: int | None) -> dict[str, str]:
    """Returns the texts of a number, by the names of attention()'s arguments."""
    if number not in _made:
        return {}
    texts = _made[number]
    given = (("bias", texts.bias), ("score_mod", texts.mod), ("mod_slope", texts.mod_slope), ("mask_mod", texts.mask))
    return {name: text[0] for name, text in given if text is not None}


def number_of(texts: Texts, specs: tuple[tuple[str, int, int], ...]) -> int:
    """Returns the number of the texts in this process."""
    key = texts, specs
    if (known := _numbers.get(key)) is not None:
        return known
    number = _numbers[key] = _core.make_score_text(texts.bias, texts.mod, texts.mod_slope, texts.mask, texts.mask_block, specs)
    _hooks.capture_specs[number] = specs
    _made[number] = texts
    _words_of_scores[number] = frozenset(word for text in (texts.bias, texts.mod) if text for word in re.findall(r"\w+", text[0]))
    return number


number_of._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compiler.assume_constant_result without PyTorch
