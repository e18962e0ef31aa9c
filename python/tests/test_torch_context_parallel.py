"""PyTorch's context_parallel() on fa2: ranks are processes of gloo, on the interpreter."""

from __future__ import annotations

import copy
import functools
import pathlib
import re
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor.experimental")

import fa2  # noqa: E402
import fa2.torch_context_parallel  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from rank_pool import RankPool  # noqa: E402
from shard_inputs import random, worst  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh  # noqa: E402
from torch.distributed.tensor.experimental import _attention, context_parallel  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

TOKENS = 48


def mesh_of(group: Any) -> DeviceMesh:
    if fa2.torch_context_parallel.is_active():  # an error has left it, which PyTorch does not undo
        F.scaled_dot_product_attention = torch._C._nn.scaled_dot_product_attention
        fa2.torch_context_parallel._installed.clear()
    fa2.torch_context_parallel.install()
    return DeviceMesh.from_group(group, "cpu")


def qkv(head_dim: int = 64, head_dim_v: int = 64, heads_kv: int = 2, tokens: int = TOKENS) -> list[Any]:
    """Returns tensors of all tokens, (batch, heads, tokens, head_dim)."""
    shapes = ((4, head_dim), (heads_kv, head_dim), (heads_kv, head_dim_v))
    return [random(2, heads, tokens, dim, seed=seed) for seed, (heads, dim) in enumerate(shapes)]


def error_of(function: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(fa2.InvalidRequest) as raised:
        function(*arguments, **options)
    return str(raised.value)


# ---- scaled_dot_product_attention ----

CASES: dict[str, dict[str, Any]] = {
    "causal": dict(is_causal=True, enable_gqa=True),
    "no mask, scaled": dict(scale=0.3, enable_gqa=True),
    "head dims that are padded": dict(is_causal=True, enable_gqa=True, head_dim=20, head_dim_v=36),
    "as many key heads": dict(is_causal=True, heads_kv=4),
}


def run_the_case(group: Any, name: str, balanced: bool, autocast: bool) -> None:
    options = dict(CASES[name])
    whole = qkv(**{x: options.pop(x) for x in ("head_dim", "head_dim_v", "heads_kv") if x in options})
    whole.append(random(2, 4, TOKENS, whole[2].shape[-1], seed=9))
    expected_in = [x.float().requires_grad_() for x in whole[:3]]
    expected = F.scaled_dot_product_attention(*expected_in, **options)
    gradients = torch.autograd.grad(expected, expected_in, whole[3].float())
    mesh, dims = mesh_of(group), [2] * 4
    before = [x.clone() for x in whole]
    _attention._cp_options.enable_load_balance = balanced
    try:
        with context_parallel(mesh, buffers=whole, buffer_seq_dims=dims), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            mine = [(x.float() if autocast else x.clone()).requires_grad_() for x in whole[:3]]
            out = F.scaled_dot_product_attention(*mine, **options)
            assert type(out) is torch.Tensor and out.dtype == torch.bfloat16 and out.shape[2] == TOKENS // dist.get_world_size(group)
            found = torch.autograd.grad(out, mine, whole[3])
            made = _attention.context_parallel_unshard(mesh, [out.detach(), *found], dims)
    finally:
        _attention._cp_options.enable_load_balance = True
    assert all(torch.equal(a, b) for a, b in zip(whole, before))
    assert all(a.dtype == b.dtype for a, b in zip(found, mine))
    for a, b in zip(made, (expected, *gradients)):
        assert worst(a, b) < 2e-2 * max(1.0, float(b.abs().max()))


@pytest.mark.parametrize("name", CASES)
def test_attention_is_that_of_one_rank(pool: RankPool, name: str) -> None:
    pool.run(2, run_the_case, name, True, False)


def test_without_load_balancing(pool: RankPool) -> None:
    pool.run(2, run_the_case, "causal", False, False)


def test_three_ranks_and_autocast(pool: RankPool) -> None:
    pool.run(3, run_the_case, "causal", True, True)


def drop_randomly(group: Any) -> None:
    mesh, (q, k, v) = mesh_of(group), qkv(tokens=64)
    torch.manual_seed(100)
    expected = fa2.attention(*(x.transpose(1, 2) for x in (q, k, v)), dropout_p=0.5, dropout_state=torch.randint(2**62, (2,)))
    torch.manual_seed(100 + dist.get_rank(group))
    with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]):
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, enable_gqa=True)
        whole = _attention.context_parallel_unshard(mesh, [out], [2])[0]
    assert worst(whole.transpose(1, 2), expected) < 1.6e-2


def test_dropout_is_that_of_one_rank(pool: RankPool) -> None:
    pool.run(2, drop_randomly)


def compute_again(group: Any) -> None:
    mesh, tensors = mesh_of(group), qkv()

    def block(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q + 0, k, v, is_causal=True, enable_gqa=True) * 2

    with context_parallel(mesh, buffers=tensors, buffer_seq_dims=[2] * 3):
        mine = [x.clone().requires_grad_() for x in tensors]
        ways = block, functools.partial(checkpoint, block, use_reentrant=False), torch.compile(block, backend="eager")
        outs = [way(*mine) for way in ways]
        expected, *others = ([out, *torch.autograd.grad(out.float().sum(), mine)] for out in outs)
    assert all(torch.equal(a, b) for made in others for a, b in zip(made, expected))


def test_checkpointed_and_compiled(pool: RankPool) -> None:
    pool.run(2, compute_again)


class Heads(torch.nn.Module):
    def forward(self, query: Any, key: Any, value: Any) -> Any:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def run_module_hooks(group: Any) -> None:
    """Runs the newer interface of PyTorch, in which hooks of modules make the DTensors."""
    from torch.distributed.tensor.experimental._context_parallel import _attention as newer
    from torch.distributed.tensor.experimental._context_parallel._load_balancer import _HeadTailLoadBalancer
    from torch.distributed.tensor.parallel import parallelize_module

    mesh, tensors = mesh_of(group), qkv()
    style = newer._ContextParallel(seq_dim=2, attention_type=newer._ContextParallel.AttentionType.SDPA)
    module = parallelize_module(Heads(), mesh, style)
    balancer = _HeadTailLoadBalancer(TOKENS, dist.get_world_size(group), "cpu")
    mine = newer._context_parallel_shard(mesh, tensors, [2, 2, 2], balancer)
    out = newer.context_parallel_unshard(mesh, [module(*mine)], [2], balancer)[0]
    assert worst(out, fa2.attention(*(x.transpose(1, 2) for x in tensors), causal=True).transpose(1, 2)) < 1.6e-2


def test_hooks_of_modules(pool: RankPool) -> None:
    pool.run(2, run_module_hooks)


# ---- what stays, and errors ----


def test_other_calls_stay() -> None:
    original, tensors = F.scaled_dot_product_attention, [x.float() for x in qkv(heads_kv=4)]
    fa2.torch_context_parallel.install()
    try:
        assert F.scaled_dot_product_attention is not original and not fa2.torch_context_parallel.is_active()
        fa2.torch_context_parallel.install(scheme="gather_heads")
        assert torch.equal(F.scaled_dot_product_attention(*tensors, is_causal=True), original(*tensors, is_causal=True))
        fa2_function, F.scaled_dot_product_attention = F.scaled_dot_product_attention, original
        assert "must be fa2's" in error_of(fa2.torch_context_parallel.uninstall)
        F.scaled_dot_product_attention = fa2_function
    finally:
        fa2.torch_context_parallel.uninstall()
    assert F.scaled_dot_product_attention is original


def find_mistakes(group: Any) -> None:
    mesh, (q, k, v) = mesh_of(group), qkv()
    with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]):
        attend = F.scaled_dot_product_attention
        mask = torch.ones(TOKENS // 2, TOKENS // 2, dtype=torch.bool).expand(2, 4, -1, -1)
        assert "attn_mask = given, must be None" in error_of(attend, q, k, v, attn_mask=mask, enable_gqa=True)
        assert "enable_gqa = False, must be True with 4 query heads and 2 key heads" in error_of(attend, q, k, v)
        assert "must be all float16 or all bfloat16" in error_of(attend, q.float(), k.float(), v.float(), enable_gqa=True)
        assert "must be even" in error_of(attend, *(x[:, :, :5] for x in (q, k, v)), enable_gqa=True)
        assert "must have q's tokens" in error_of(attend, q, k[:, :, :4], v[:, :, :4], enable_gqa=True)
        assert "(batch, heads, tokens, head_dim)" in error_of(attend, *(x[None] for x in (q, k, v)), enable_gqa=True)
        assert "call install() and uninstall() outside of it" in error_of(fa2.torch_context_parallel.install)
        _attention.set_rotate_method("alltoall")
        assert 'must be "allgather" on fa2' in error_of(attend, q, k, v, enable_gqa=True)
        _attention.set_rotate_method("allgather")
    fa2.torch_context_parallel.install(scheme="local")
    with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]):
        assert "scheme = local, must not be local" in error_of(F.scaled_dot_product_attention, q, k, v, enable_gqa=True)


def test_mistakes(pool: RankPool) -> None:
    pool.run(2, find_mistakes)


# ---- transformers ----

LLAMA = dict(num_hidden_layers=2, hidden_size=64, intermediate_size=64, vocab_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=64)


#: Options beyond LLAMA's, by families whose layers need more than scaled_dot_product_attention() takes.
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Mistral": dict(sliding_window=30),
    "GptOss": dict(sliding_window=30, num_local_experts=2, num_experts_per_tok=2),
    "Gemma2": dict(sliding_window=30, query_pre_attn_scalar=64, attn_logit_softcapping=5.0),
}


def model_of(implementation: str, family: str = "Llama") -> Any:
    transformers = pytest.importorskip("transformers")
    import fa2.transformers

    fa2.transformers.register()
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(**LLAMA, **FAMILIES[family], initializer_range=0.2, use_cache=False)
    config._attn_implementation = implementation
    return getattr(transformers, f"{family}ForCausalLM")(config).to(torch.bfloat16)


def batch_of() -> dict[str, Any]:
    tokens = torch.randint(0, 96, (2, TOKENS), generator=torch.Generator().manual_seed(2))
    return {
        "input_ids": tokens,
        "position_ids": torch.arange(TOKENS).repeat(2, 1),
        "attention_mask": torch.ones_like(tokens),
        "shift_labels": F.pad(tokens, (0, 1), value=-100)[:, 1:].contiguous(),  # a model's own shift would end at borders of shards
    }


def step(model: Any, batch: dict[str, Any]) -> Any:
    """Returns the rank's part of the loss, and the gradients of parameters."""
    loss = model(**batch, labels=batch["shift_labels"], num_items_in_batch=2 * (TOKENS - 1)).loss
    return loss.detach(), torch.autograd.grad(loss, list(model.parameters()))


def prepared(model: Any, mesh: DeviceMesh) -> Any:
    """Returns maybe_context_parallel() of an Accelerator that has prepared the model for cp_size=2. Real ones need GPUs."""
    accelerate = pytest.importorskip("accelerate")
    config = accelerate.ParallelismConfig(cp_size=2)
    accelerator = types.SimpleNamespace(parallelism_config=config, torch_device_mesh={"cp": mesh})
    accelerate.Accelerator._prepare_cp(accelerator, model)
    return functools.partial(accelerate.Accelerator.maybe_context_parallel, accelerator)


def train(group: Any, implementation: str, family: str, prepare: bool) -> None:
    model, mesh, batch = model_of(implementation, family), mesh_of(group), batch_of()
    single = copy.deepcopy(model)
    single.set_attn_implementation("eager")
    rounded, exact = step(single, batch), step(single.float(), batch)
    enter: Any = functools.partial(context_parallel, mesh)
    if prepare:
        enter = prepared(model, mesh)
        del batch["attention_mask"]
    with enter(buffers=list(batch.values()), buffer_seq_dims=[1] * len(batch)):
        loss, gradients = step(model, batch)
    parts = [loss, *(x.float() for x in gradients)]
    for part in parts:
        dist.all_reduce(part, group=group)
    assert worst(parts[0], exact[0]) < 1e-2
    errors = torch.tensor([[float((x - c).norm() / c.norm()) for x in (a, b)] for a, b, c in zip(parts[1:], rounded[1], exact[1])])
    assert errors[:, 0].mean() < 1.2 * errors[:, 1].mean() < 0.1 and bool((errors[:, 0] < 2 * errors[:, 1] + 1e-2).all()), errors


@pytest.mark.parametrize("implementation, family", [("sdpa", "Llama"), *(("fa2", x) for x in FAMILIES)])
def test_a_model_trains_as_on_one_rank(pool: RankPool, implementation: str, family: str) -> None:
    pytest.importorskip("transformers")
    pool.run(2, train, implementation, family, False)


def test_a_model_that_accelerate_prepares(pool: RankPool) -> None:
    pytest.importorskip("accelerate")
    pool.run(2, train, "sdpa", "Llama", True)


def find_mistakes_of_models(group: Any) -> None:
    mesh, batch = mesh_of(group), batch_of()
    del batch["attention_mask"]  # so that transformers takes the two chunks of a rank for two documents
    with context_parallel(mesh, buffers=list(batch.values()), buffer_seq_dims=[1] * len(batch)):
        # On the last rank one chunk follows the other, so that it makes no mask.
        assert "attn_mask = given, must be None" in error_of(step, model_of("sdpa"), batch)
        assert "attention_mask = given, must be None" in error_of(step, model_of("fa2"), batch)
    fa2.torch_context_parallel.uninstall()
    with context_parallel(mesh, buffers=list(batch.values()), buffer_seq_dims=[1] * len(batch)):
        ones = torch.ones_like(batch["input_ids"])
        assert "call fa2.torch_context_parallel.install()" in error_of(step, model_of("fa2"), {**batch, "attention_mask": ones})


def test_mistakes_of_models(pool: RankPool) -> None:
    pytest.importorskip("transformers")
    pool.run(2, find_mistakes_of_models)


# ---- the page ----


def run_the_page(group: Any, code: str) -> None:
    batch = batch_of()
    names: dict[str, Any] = dict(mesh=mesh_of(group), model=model_of("sdpa"), tokens=batch["input_ids"], torch=torch, F=F)
    exec(code, names)
    total = names["loss"].detach() / dist.get_world_size(group)
    dist.all_reduce(total, group=group)
    assert worst(total, step(model_of("eager"), batch)[0]) < 3e-2


def test_the_example_of_the_page_runs(pool: RankPool) -> None:
    pytest.importorskip("transformers")
    page = (pathlib.Path(__file__).parents[2] / "docs/python.md").read_text().split("**PyTorch's context_parallel.**")[1]
    pool.run(2, run_the_page, re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
