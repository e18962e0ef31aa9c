"""Runs the Python code of the README unchanged."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

README = pathlib.Path(__file__).parents[2] / "README.md"


def test_the_readme_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    config = transformers.LlamaConfig(vocab_size=32, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    q, k, v = (torch.randn(2, 16, 4, 64, dtype=torch.float16) for _ in range(3))
    names: dict[str, Any] = dict(torch=torch, q=q, k=k, v=v, longest=16, name=str(tmp_path))
    names.update(packed_q=q.flatten(0, 1), packed_k=k.flatten(0, 1), packed_v=v.flatten(0, 1))
    names.update(cu_seqlens=torch.tensor([0, 16, 32], dtype=torch.int32))
    names["AutoModelForCausalLM"] = transformers.AutoModelForCausalLM
    exec(code, names)
    assert names["out"].shape == (32, 4, 64)
    assert names["model"].config._attn_implementation == "fa2"
