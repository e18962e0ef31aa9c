"""The dict that explain() returns."""

from __future__ import annotations

from typing import Any

from . import _text

_DEFAULTS = {None, False, "same", "natural"}
#: What other words of the text say.
_SAID = {"batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k", "head_dim", "head_dim_v", "dtype", "mask", "score_text"}


def _problem_text(problem: dict[str, Any]) -> str:
    p = problem
    head_dims = str(p["head_dim"]) if p["head_dim_v"] == p["head_dim"] else f"{p['head_dim']}/{p['head_dim_v']}"
    sizes = f"batch {p['batch']}, heads {p['heads_q']}/{p['heads_kv']}, seqlen {p['seqlen_q']}/{p['seqlen_k']}"
    others = [
        name if value is True else f"{name}={value}"
        for name, value in p.items()
        if name not in _SAID and (value not in _DEFAULTS or (name.startswith("window") and value == 0))
    ]
    return ", ".join((p["dtype"], f"mask {p['mask']}", sizes, f"head_dim {head_dims}", *others))


def _kernel_facts(kernel: dict[str, Any]) -> list[tuple[str, str]]:
    found = kernel["resources"]
    name = next((part["value"] for part in kernel["key_parts"] if part["name"] == "entry"), kernel["key"])
    shared = found["static_shared_bytes"] + found["dynamic_shared_bytes"]
    spilt = found["spill_store_bytes"] + found["spill_load_bytes"]
    resources = f"{found['threads']} threads, {found['registers']} registers, {shared} bytes of shared memory"
    blocks = "for persistent blocks" if kernel["is_persistent"] else "with a block each"
    origin, reason, heads = kernel["config_origin"], kernel["config_reason"], kernel["heads_per_tile"]
    return [
        ("kernel", name),
        ("origin", f"{kernel['origin']}; {kernel['compile_ms']:.0f} ms of compiling by {kernel['compiler']}"),
        ("config", " ".join(f"{field}={value}" for field, value in kernel["config"].items())),
        ("reason", reason if reason.startswith(origin) else f"{origin}: {reason}"),
        ("resources", f"{resources}, {spilt} bytes spilt, {kernel['blocks_per_sm']} blocks per SM"),
        ("tiles", f"of {heads} query head{'s' if heads > 1 else ''} each, {blocks}"),
    ]


class Explanation(dict[str, Any]):
    """Describes the kernels of a call: a dict with the keys of the JSON, which prints as a few lines of text."""

    def __str__(self) -> str:
        rows = [("problem", _problem_text(self["problem"])), ("device", f"{self['device']}, {self['arch']}")]
        rows += [(name, " ".join(text.split())) for name, text in self.get("texts", {}).items()]
        if self["notes"]:
            rows.append(("notes", self["notes"]))
        for kernel in self["kernels"]:
            rows += _kernel_facts(kernel)
        return _text.facts(rows)

    __repr__ = __str__
