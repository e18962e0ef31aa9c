#!/usr/bin/env python3
"""Prints every relative link of Markdown files that leads to no file or to no heading. Usage: check_links.py FILE..."""
import os
import re
import sys

CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"""\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)|\b(?:src|href)="([^"]+)\"""")
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def anchors_of(path):
    """Returns the fragments that GitHub gives to the headings of a page."""
    anchors = set()
    for heading in HEADING.findall(re.sub(r"^```.*?^```", "", text_of(path), flags=re.MULTILINE | re.DOTALL)):
        words = re.sub(r"\]\([^)]*\)", "", heading).lower()
        anchor, count = re.sub(r"[^\w\- ]", "", words).replace(" ", "-"), 0
        while (name := f"{anchor}-{count}" if count else anchor) in anchors:
            count += 1
        anchors.add(name)
    return anchors


def broken_links(path):
    text = CODE.sub(lambda code: "\n" * code[0].count("\n"), text_of(path))
    for match in LINK.finditer(text):
        link = match[1] or match[2]
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = os.path.join(os.path.dirname(path), file) if file else path
        if not os.path.exists(target) or anchor and target.endswith(".md") and anchor not in anchors_of(target):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {link}"


broken = [line for path in sys.argv[1:] for line in broken_links(path)]
print("\n".join(broken), end="\n" if broken else "")
sys.exit(bool(broken))
