"""Hugging Face transformers models with fa2, compared with their eager attention in float32 and in the same dtype.

The models are small on the interpreter. On a GPU (`pytest -m gpu`) sequences are longer and heads wider.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import fa2  # noqa: E402
import fa2.transformers  # noqa: E402

NAME = fa2.transformers.register()
DTYPE = torch.bfloat16
SHAPE = {"vocab_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.2}
KEYS = {"num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0}


def config_of(family: str, head_dim: int) -> Any:
    sizes = {**SHAPE, "hidden_size": 4 * head_dim, "intermediate_size": 8 * head_dim}
    decoder = {**sizes, **KEYS, "head_dim": head_dim}
    layers = ["sliding_attention", "full_attention"]
    if family == "llama":
        return transformers.LlamaConfig(**decoder)
    if family == "qwen3":
        return transformers.Qwen3Config(**decoder)
    if family == "mistral":
        return transformers.MistralConfig(**decoder, sliding_window=8)
    if family == "gemma2":
        scale = {"query_pre_attn_scalar": head_dim, "attn_logit_softcapping": 5.0}
        return transformers.Gemma2Config(**decoder, **scale, sliding_window=8, layer_types=layers)
    if family == "gemma4":  # global layers of 512 columns
        sizes = {"num_attention_heads": 2, "num_key_value_heads": 1, "global_head_dim": 512}
        inputs = {"vocab_size_per_layer_input": 96, "hidden_size_per_layer_input": 8}
        return transformers.Gemma4TextConfig(**{**decoder, **sizes}, **inputs, sliding_window=8, layer_types=layers)
    if family == "gpt_oss":
        experts = {"num_local_experts": 2, "num_experts_per_tok": 2}  # the router has no choice
        return transformers.GptOssConfig(**decoder, **experts, sliding_window=8, layer_types=layers)
    if family == "llama4":
        sizes = {"intermediate_size_mlp": 8 * head_dim, "num_local_experts": 1, "attention_chunk_size": 7}
        return transformers.Llama4TextConfig(**decoder, **sizes, layer_types=["chunked_attention", "full_attention"], moe_layers=[])
    if family == "bert":
        return transformers.BertConfig(**sizes)
    assert family == "t5"
    names = {"d_model": 4 * head_dim, "d_kv": head_dim, "d_ff": 8 * head_dim, "num_layers": 2, "num_heads": 4}
    return transformers.T5Config(vocab_size=96, **names, decoder_start_token_id=0)


CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "mistral": "MistralForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma4": "Gemma4ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "llama4": "Llama4ForCausalLM",
    "bert": "BertModel",
    "t5": "T5ForConditionalGeneration",
}
DECODERS = ["llama", "qwen3", "mistral", "gemma2", "gpt_oss"]


class Models:
    """One set of weights in three models: eager in float32, eager in DTYPE, fa2 in DTYPE."""

    def __init__(self, family: str, device: str) -> None:
        torch.manual_seed(1)
        config = config_of(family, 64 if device == "cuda" else 16)
        config._attn_implementation = "eager"
        self.eager = getattr(transformers, CLASSES[family])(config).to(device, DTYPE).eval()
        self.exact = copy.deepcopy(self.eager).float()
        self.fa2 = copy.deepcopy(self.eager)
        self.fa2.set_attn_implementation(NAME)
        assert self.fa2.config._attn_implementation == NAME
        self.device = device
        self.length = 200 if device == "cuda" else 20

    def batch(self, padding: str = "none") -> tuple[Any, Any]:
        """Returns tokens of three sequences, and a mask of the tokens that count."""
        tokens = torch.randint(1, 96, (3, self.length), generator=torch.Generator().manual_seed(2))
        counts = torch.ones_like(tokens)
        for row, missing in enumerate((5, 0, 11)):
            if padding == "left":
                counts[row, :missing] = 0
            elif padding == "right":
                counts[row, self.length - missing :] = 0
        return tokens.to(self.device), counts.to(self.device)

    def __iter__(self) -> Any:
        return iter((self.exact, self.eager, self.fa2))


_made: dict[tuple[str, str], Models] = {}


def models_of(family: str, device: str) -> Models:
    if (family, device) not in _made:
        _made[family, device] = Models(family, device)
    return _made[family, device]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: Any) -> Any:
    return request.param


def check(exact: Any, eager: Any, found: Any, factor: float = 3.0) -> None:
    """Checks that fa2's error is at most `factor` times that of eager attention in the same dtype."""
    assert torch.isfinite(found).all()
    exact = exact.detach().double()
    allowed = float((eager.detach().double() - exact).abs().max())
    error = float((found.detach().double() - exact).abs().max())
    assert error <= factor * allowed + 1e-6, f"{error} where eager attention has {allowed}"


def outputs(model: Any, tokens: Any, counts: Any, **options: Any) -> Any:
    """Returns the outputs of all tokens that count, (tokens, columns)."""
    positions = (counts.cumsum(-1) - 1).clamp(min=0)
    if model.config.model_type != "bert":
        options.update(position_ids=positions, use_cache=False)
    result = model(input_ids=tokens, attention_mask=counts, **options)
    return result[0][counts.bool()]


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("family", [*DECODERS, "bert"])
def test_forward(family: str, padding: str, device: str) -> None:
    models = models_of(family, device)
    with torch.no_grad():
        check(*(outputs(model, *models.batch(padding)) for model in models))


@pytest.mark.skipif(not hasattr(transformers, "Gemma4TextConfig"), reason="this transformers has no Gemma 4")
def test_wide_global_layers(device: str) -> None:
    models = models_of("gemma4", device)
    with torch.no_grad():
        check(*(outputs(model, *models.batch("left")) for model in models))
    with pytest.raises(fa2.InvalidRequest, match="head_dim = 512 and head_dim_v = 512, whose gradients"):
        outputs(models.fa2, *models.batch())


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize("family", [*DECODERS, "llama4"])
def test_generate(family: str, padding: str, cache: str, device: str) -> None:
    models = models_of(family, device)
    tokens, counts = models.batch(padding)
    made = models.fa2.generate(
        input_ids=tokens,
        attention_mask=counts,
        max_new_tokens=3,
        min_new_tokens=3,
        do_sample=False,
        cache_implementation=cache,
        disable_compile=True,
        return_dict_in_generate=True,
        output_logits=True,
    )
    counts = torch.cat([counts, torch.ones_like(made.sequences[:, models.length :])], -1)
    with torch.no_grad():
        whole = [_last_logits(model, made.sequences, counts) for model in (models.exact, models.eager)]
    check(*whole, torch.stack(made.logits, 1))


def _last_logits(model: Any, tokens: Any, counts: Any) -> Any:
    positions = (counts.cumsum(-1) - 1).clamp(min=0)
    result = model(input_ids=tokens, attention_mask=counts, position_ids=positions, use_cache=False)
    return result.logits[:, -4:-1].float()


def packed(device: str) -> dict[str, Any]:
    """Returns two rows of three sequences each, which their positions delimit."""
    lengths = ((5, 9, 6), (11, 8, 1))
    positions = [torch.cat([torch.arange(n) for n in row]) for row in lengths]
    tokens = torch.randint(1, 96, (2, 20), generator=torch.Generator().manual_seed(3))
    return {"input_ids": tokens.to(device), "position_ids": torch.stack(positions).to(device)}


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss"])
def test_packed_by_positions(family: str, device: str) -> None:
    models = models_of(family, device)
    with torch.no_grad():
        check(*(model(**packed(device), use_cache=False).logits for model in models))


def test_packed_by_cu_seq_lens(device: str) -> None:
    exact, eager, model = models_of("mistral", device)
    one = {name: rows[:1] for name, rows in packed(device).items()}
    borders = torch.tensor([0, 5, 14, 20], dtype=torch.int64, device=device)
    lengths = {"cu_seq_lens_q": borders, "cu_seq_lens_k": borders, "max_length_q": 9, "max_length_k": 9}
    with torch.no_grad():
        found = model(input_ids=one["input_ids"], position_ids=one["position_ids"], **lengths, use_cache=False)
        check(*(x(**one, use_cache=False).logits for x in (exact, eager)), found.logits)


def gradients(model: Any, padding: str, models: Models, checkpointing: bool = False) -> dict[str, Any]:
    """Returns the gradients of attention's parameters, by name, after one backward."""
    model = copy.deepcopy(model).train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    inputs = packed(models.device) if padding == "packed" else {}
    if not inputs:
        tokens, counts = models.batch(padding)
        inputs = {"input_ids": tokens, "attention_mask": counts}
    result = model(**inputs, use_cache=False)[0]
    if "attention_mask" in inputs:
        result = result[inputs["attention_mask"].bool()]
    result.float().log_softmax(-1)[..., 7].mean().backward()
    return {name: x.grad for name, x in model.named_parameters() if "attn" in name and x.grad is not None}


@pytest.mark.parametrize("padding", ["none", "left", "packed"])
@pytest.mark.parametrize("family", ["llama", "gpt_oss"])
def test_training_step(family: str, padding: str, device: str) -> None:
    models = models_of(family, device)
    exact, eager, found = (gradients(model, padding, models) for model in models)
    assert exact.keys() == found.keys() and len(found) >= 8
    assert (family == "gpt_oss") == any(name.endswith("sinks") for name in found)
    for name in exact:
        check(exact[name], eager[name], found[name], factor=4.0)


def test_gradient_checkpointing(device: str) -> None:
    models = models_of("llama", device)
    expected = gradients(models.fa2, "left", models)
    found = gradients(models.fa2, "left", models, checkpointing=True)
    for name in expected:
        check(expected[name], expected[name] * (1 + 1e-2), found[name])


@pytest.mark.parametrize("padding", ["none", "left", "right"])
def test_compiles_as_one_graph(padding: str, device: str) -> None:
    models = models_of("mistral", device)
    tokens, counts = models.batch(padding)
    positions = (counts.cumsum(-1) - 1).clamp(min=0)
    compiled = torch.compile(models.fa2, fullgraph=True, backend="inductor" if device == "cuda" else "eager")
    with torch.no_grad():
        exact, eager = (outputs(model, tokens, counts) for model in (models.exact, models.eager))
        if padding == "none":
            result = compiled(input_ids=tokens, use_cache=False)
        else:
            result = compiled(input_ids=tokens, attention_mask=counts, position_ids=positions, use_cache=False)
    check(exact, eager, result.logits[counts.bool()])


@pytest.mark.parametrize("padding", ["left", "right"])
def test_position_bias(padding: str, device: str) -> None:
    models = models_of("t5", device)
    tokens, counts = models.batch(padding)
    inputs = {"input_ids": tokens, "attention_mask": counts, "decoder_input_ids": tokens[:, 11:18]}
    with torch.no_grad():
        check(*(model(**inputs).logits for model in models))


def test_generate_with_position_bias(device: str) -> None:
    models = models_of("t5", device)
    tokens, counts = models.batch("right")
    inputs = {"input_ids": tokens, "attention_mask": counts}
    made = models.fa2.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False, return_dict_in_generate=True, output_logits=True)
    with torch.no_grad():
        whole = [model(**inputs, decoder_input_ids=made.sequences[:, :-1]).logits.float() for model in (models.exact, models.eager)]
    check(*whole, torch.stack(made.logits, 1))


def test_gradients_of_position_bias(device: str) -> None:
    models = models_of("t5", device)
    tokens, counts = models.batch("right")
    found = []
    for model in models:
        model = copy.deepcopy(model).train()
        for module in model.modules():
            for name in ("p", "dropout"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
        logits = model(input_ids=tokens, attention_mask=counts, decoder_input_ids=tokens[:, :7]).logits
        logits.float().log_softmax(-1)[..., 7].mean().backward()
        found.append({name: x.grad for name, x in model.named_parameters() if "relative_attention_bias" in name})
    assert len(found[0]) == 2
    for name in found[0]:
        check(*(gradients[name] for gradients in found), factor=4.0)


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss"])
def test_masks_with_gaps(family: str, device: str) -> None:
    models = models_of(family, device)
    tokens, counts = models.batch("left")
    counts[:, 12:15] = 0
    with torch.no_grad():
        check(*(outputs(model, tokens, counts) for model in models))


@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("family", ["llama", "gpt_oss"])
def test_masks_of_four_dimensions(family: str, kind: str, device: str) -> None:
    models = models_of(family, device)
    tokens, _ = models.batch()
    seen = torch.ones(models.length, models.length, dtype=torch.bool, device=device).tril()
    seen[:, :4] = True  # a bidirectional prefix
    results = []
    for model in models:
        lowest = torch.finfo(model.dtype).min
        mask = torch.zeros_like(seen, dtype=model.dtype).masked_fill(~seen, lowest)[None, None]
        if kind == "bool" and model is models.fa2:  # eager attention would add it
            mask = seen[None, None]
        both = {"full_attention": mask, "sliding_attention": mask} if family == "gpt_oss" else mask
        with torch.no_grad():
            results.append(model(input_ids=tokens, attention_mask=both, use_cache=False).logits)
    check(*results)


@pytest.mark.parametrize("padding", ["none", "left"])
def test_chunks(padding: str, monkeypatch: Any, device: str) -> None:
    monkeypatch.setattr(fa2.transformers._lengths, "AttentionMaskInterface", lambda: pytest.fail("a matrix was made"))
    models = models_of("llama4", device)
    with torch.no_grad():
        check(*(outputs(model, *models.batch(padding)) for model in models))


def test_images_see_themselves(monkeypatch: Any, device: str) -> None:
    """A function of the model's own, with gradients and checkpointing."""
    from transformers import masking_utils

    models = models_of("llama", device)
    images = torch.full((3, models.length), -1, device=device)
    images[:, 3:9], images[1, 12:15] = 0, 1
    original = masking_utils.create_causal_mask

    def create(*args: Any, **keywords: Any) -> Any:
        mask = original(*args, **keywords, or_mask_function=lambda b, h, q, k: (images[b, q] == images[b, k]) & (images[b, q] >= 0))
        seen.append(mask)
        return mask

    monkeypatch.setattr("transformers.models.llama.modeling_llama.create_causal_mask", create)
    seen: list[Any] = []
    exact, eager, found = (gradients(model, "none", models, checkpointing=True) for model in models)
    for name in exact:
        check(exact[name], eager[name], found[name], factor=4.0)
    assert [type(x).__name__ for x in seen] == ["Tensor", "Tensor", "FunctionMask"]
    mask = seen[2]
    assert mask.to(mask.device) is mask and mask.size() == (3, 1, models.length, models.length), "nothing needs its elements"
    assert torch.equal(mask & True, seen[0] == 0), "as a tensor it is the matrix"


def test_a_mask_of_four_dimensions_compiles_as_one_graph(device: str) -> None:
    models = models_of("llama", device)
    tokens, _ = models.batch()
    seen = torch.ones(models.length, models.length, dtype=torch.bool, device=device).tril(3)[None, None]
    compiled = torch.compile(models.fa2, fullgraph=True, backend="inductor" if device == "cuda" else "eager")
    results = []
    for model in (models.exact, models.eager, compiled):
        mask = seen if model is compiled else torch.zeros_like(seen, dtype=model.dtype).masked_fill(~seen, torch.finfo(model.dtype).min)
        with torch.no_grad():
            results.append(model(input_ids=tokens, attention_mask=mask, use_cache=False).logits)
    check(*results)


def test_decoding_compiles_as_one_graph(device: str) -> None:
    models = models_of("llama", device)
    tokens, counts = models.batch("left")
    tokens, counts = (torch.cat([x, torch.ones_like(x[:, :2])], -1) for x in (tokens, counts))
    positions = (counts.cumsum(-1) - 1).clamp(min=0)
    cache = transformers.StaticCache(models.fa2.config, max_cache_len=models.length + 8)
    compiled = torch.compile(models.fa2, fullgraph=True, backend="inductor" if device == "cuda" else "eager")
    begin, found = 0, []
    for model, end in ((models.fa2, models.length), (compiled, models.length + 1), (compiled, models.length + 2)):
        places = {"input_ids": tokens[:, begin:end], "position_ids": positions[:, begin:end]}
        with torch.no_grad():
            logits = model(**places, attention_mask=counts[:, :end], past_key_values=cache).logits
        found.append(logits[:, -1].float())
        begin = end
    with torch.no_grad():
        whole = [
            x(input_ids=tokens, attention_mask=counts, position_ids=positions, use_cache=False).logits[:, -3:]
            for x in (models.exact, models.eager)
        ]
    check(*whole, torch.stack(found, 1))


@pytest.mark.gpu
def test_generate_compiles_its_steps() -> None:
    models = models_of("gemma2", "cuda")
    tokens, counts = models.batch("left")
    inputs = {"input_ids": tokens, "attention_mask": counts, "max_new_tokens": 8, "min_new_tokens": 8}
    inputs.update(do_sample=False, cache_implementation="static", return_dict_in_generate=True, output_logits=True)
    found, plain = (models.fa2.generate(**inputs, disable_compile=disabled) for disabled in (False, True))
    torch.testing.assert_close(found.logits[1], plain.logits[1], atol=0.5, rtol=0.1)
