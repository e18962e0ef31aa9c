"""Prints calls.json: the keywords that vLLM's and SGLang's backends pass to the functions that fa2 replaces.

    python read_calls.py vllm 0.33.0 SITE/vllm/v1/attention/backends/flash_attn.py SITE/vllm/v1/worker/cp_utils.py \\
        -- sglang 0.5.23 SITE/sglang/srt/layers/attention/flashattention_backend.py > calls.json

SITE is the folder of the unpacked wheels. This program only parses them and runs none of their code.
"""

from __future__ import annotations

import ast
import json
import pathlib
import sys

#: By the last part of what is called.
FUNCTIONS = {
    "flash_attn_varlen_func": "flash_attn_varlen_func",
    "_FA4_DENSE_ATTENTION_KERNEL": "flash_attn_varlen_func",
    "flash_attn_with_kvcache": "flash_attn_with_kvcache",
}


def keywords(call: ast.Call, more: list[str]) -> str:
    """Returns the keywords of one call; for `**kwargs`, every key that the module may have stored there."""
    names = [keyword.arg for keyword in call.keywords]
    return ", ".join(sorted({name for given in names for name in ([given] if given else more)}))


def read(paths: list[str]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for path in paths:
        nodes = list(ast.walk(ast.parse(pathlib.Path(path).read_text())))
        stored = [x for x in nodes if isinstance(x, ast.Subscript) and isinstance(x.value, ast.Name)]
        more = [x.slice.value for x in stored if x.value.id == "kwargs" and isinstance(x.slice, ast.Constant)]  # type: ignore[attr-defined]
        for call in (x for x in nodes if isinstance(x, ast.Call)):
            name = FUNCTIONS.get(getattr(call.func, "id", getattr(call.func, "attr", "")))
            if name and call.keywords and not call.args:
                found.setdefault(name, set()).add(keywords(call, more))
    return {name: sorted(calls) for name, calls in sorted(found.items())}


if __name__ == "__main__":
    result = {}
    arguments = sys.argv[1:]
    while arguments:
        end = arguments.index("--") if "--" in arguments else len(arguments)
        library, version, *paths = arguments[:end]
        result[library] = {"version": version, "calls": read(paths)}
        arguments = arguments[end + 1 :]
    print(json.dumps(result, indent=1))
