"""Measures whole models of transformers with fa2 and with PyTorch's attention. One is a Llama-like forward of 4,096
tokens, over every backend of sdpa. The other is generate() with padding, in tokens per second, over sdpa and, if
installed, FlashAttention-2. Weights are random.

Medians over rounds. In each round, every system runs once, in a shuffled order.
Usage: python bench/python_models.py [--rounds 9] [--new-tokens 64] [--json]"""

import argparse
import contextlib
import functools
import importlib.util
import json
import random
import statistics
import time

BATCH = 16


def llama(torch):
    """Returns 8 layers of Llama 3 8B: 32 query heads of 128, 8 key/value heads."""
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=8,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=32000,
        max_position_embeddings=8192,
        pad_token_id=0,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


def backends(torch):
    """Returns name -> (attn_implementation, context in which to call)."""
    import fa2.transformers
    from torch.nn.attention import SDPBackend, sdpa_kernel

    found = {"fa2": (fa2.transformers.register(), contextlib.nullcontext), "sdpa": ("sdpa", contextlib.nullcontext)}
    kinds = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")
    for kind in kinds:
        found[f"sdpa {kind.lower().removesuffix('_attention')}"] = (
            "sdpa",
            lambda backend=getattr(SDPBackend, kind): sdpa_kernel(backend),
        )
    if importlib.util.find_spec("flash_attn") is not None:
        found["flash_attention_2"] = ("flash_attention_2", contextlib.nullcontext)
    return found


def rounds_of(torch, model, contestants, call, rounds, calls=1):
    """Returns name -> median seconds per call. Prints the error of a contestant that raises one, and leaves it out."""
    times = {}
    for name, (implementation, context) in contestants.items():
        model.set_attn_implementation(implementation)
        try:
            with context():
                call()
            times[name] = []
        except (RuntimeError, ImportError) as error:
            print(f"{name} is left out: {str(error).splitlines()[0]}")
    for _ in range(rounds):
        for name in random.sample(list(times), len(times)):
            implementation, context = contestants[name]
            model.set_attn_implementation(implementation)
            torch.cuda.synchronize()
            begin = time.perf_counter()
            with context():
                for _ in range(calls):
                    call()
            torch.cuda.synchronize()
            times[name].append((time.perf_counter() - begin) / calls)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def padded_prompts(torch, longest):
    """Returns tokens, and a mask of those that count. Lengths go from a 16th of the longest to the longest, padded on
    the left."""
    prompts = torch.randint(1, 32000, (BATCH, longest), device="cuda")
    counts = torch.ones_like(prompts)
    for row in range(BATCH):
        counts[row, : longest - longest // 16 * (row + 1)] = 0
    return prompts * counts, counts


def measure(rounds, new_tokens):
    import torch

    model, contestants = llama(torch), backends(torch)
    tokens = torch.randint(1, 32000, (1, 4096), device="cuda")
    result = {}
    with torch.no_grad():
        forward = functools.partial(model.model, input_ids=tokens, use_cache=False)
        seconds = rounds_of(torch, model, contestants, forward, 3 * rounds, calls=3)  # these results are close to each other
        result["forward of 1 x 4096 tokens, ms"] = {name: 1e3 * time for name, time in seconds.items()}

        for longest, cache in ((1024, "dynamic"), (1024, "static"), (4096, "dynamic")):
            prompts, counts = padded_prompts(torch, longest)
            options = {"max_new_tokens": new_tokens, "min_new_tokens": new_tokens, "do_sample": False}
            if cache == "static":
                options.update(cache_implementation="static", disable_compile=True)
            generate = functools.partial(model.generate, input_ids=prompts, attention_mask=counts, **options)
            few = {name: value for name, value in contestants.items() if " " not in name}
            seconds = rounds_of(torch, model, few, generate, rounds)
            title = f"generate, {BATCH} prompts of {longest // 16} to {longest}, padded, {cache} cache, tokens/s"
            result[title] = {name: BATCH * new_tokens / time for name, time in seconds.items()}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = measure(args.rounds, args.new_tokens)
    if args.json:
        print(json.dumps(result, indent=2))
        return
    for title, row in result.items():
        peers = {name: value for name, value in row.items() if name != "fa2"}
        faster = min if title.endswith("ms") else max
        best = faster(peers, key=peers.get)
        print(title)
        for name, value in row.items():
            print(f"  {name:20} {value:9.2f}")
        ratio = row[best] / row["fa2"] if faster is min else row["fa2"] / row[best]
        print(f"  fa2 is {ratio:.3f} x {best}, the best of the others")
    if importlib.util.find_spec("flash_attn") is None:
        print("flash_attention_2: not installed")


if __name__ == "__main__":
    main()
