"""Formats tables and facts as text of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

WIDTH = 80


def table(rows: Sequence[Sequence[Any]]) -> str:
    """Returns rows as text in columns; the first row holds the titles, and numbers are right-aligned.

    Text of the last column continues in the next line if it is too wide.
    """
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    right = [all(isinstance(row[place], (int, float)) for row in rows[1:]) for place in range(len(widths))]
    indent = sum(widths[:-1]) + 2 * len(widths[:-1])
    lines = []
    for row in texts:
        cells = [text.rjust(width) if to_right else text.ljust(width) for text, width, to_right in zip(row, widths, right)]
        lines.append("  ".join((*cells[:-1], wrapped(cells[-1], indent))).rstrip())
    return "\n".join(lines)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Returns a line for each (name, value) with aligned values. A wide value continues in the next line."""
    return table([(name, value) for name, value in pairs])


def wrapped(text: str, indent: int = 0) -> str:
    """Returns text in lines, indented from the second on. Paths are not broken, so that they can be copied."""
    lines = textwrap.wrap(text, max(20, WIDTH - indent), break_long_words="/" not in text, break_on_hyphens=False)
    return text if len(lines) < 2 else ("\n" + " " * indent).join(lines)
