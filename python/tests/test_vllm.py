"""fa2 as vLLM's attention: its function against float64, and its backend in the real vLLM if that is installed."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import serving_batch as serving  # noqa: E402

import fa2  # noqa: E402
import fa2.vllm  # noqa: E402

SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0])


def call(batch: serving.Batch, **options: Any) -> Any:
    """Calls fa2 as vLLM's backend does for a decoder layer."""
    given: dict[str, Any] = dict(
        q=batch.q,
        k=batch.k,
        v=batch.v,
        out=torch.empty_like(batch.q),
        cu_seqlens_q=batch.cu_seqlens_q,
        max_seqlen_q=batch.max_seqlen_q,
        seqused_k=batch.seqused_k,
        max_seqlen_k=batch.max_seqlen_k,
        softmax_scale=serving.HEAD_DIM**-0.5,
        causal=True,
        alibi_slopes=None,
        window_size=[-1, -1],
        block_table=batch.page_table,
        softcap=0,
        scheduler_metadata=None,
        fa_version=0,
        q_descale=torch.ones(5, 2),
        k_descale=torch.ones(5, 2),
        v_descale=torch.ones(5, 2),
        dynamic_causal=None,
        num_splits=0,
        s_aux=None,
        mask_mod=None,
        aux_tensors=None,
    )
    return fa2.vllm.flash_attn_varlen_func(**{**given, **options})


@pytest.mark.parametrize("name, given", serving.recorded("vllm"))
def test_takes_what_vllm_hands_over(name: str, given: list[str]) -> None:
    assert serving.unknown(getattr(fa2.vllm, name), given) <= {"aux_tensors", "dynamic_causal", "mask_mod"}


@pytest.mark.parametrize(
    "options, meant",
    [
        ({}, {}),
        ({"window_size": [7, 0]}, {"window": (7, 0)}),
        ({"causal": False, "window_size": [7, 7]}, {"mask": None, "window": (7, 7)}),
        ({"causal": False, "window_size": None}, {"mask": None}),
        ({"softcap": 5.0}, {"softcap": 5.0}),
        ({"alibi_slopes": SLOPES}, {"slopes": SLOPES}),
        ({"s_aux": SINKS.half(), "window_size": [15, 0]}, {"sinks": SINKS, "window": (15, 0)}),
        ({"num_splits": 1}, {}),
    ],
)
def test_prefill_and_decode_in_one_batch(options: Any, meant: Any) -> None:
    batch = serving.make()
    out = torch.empty_like(batch.q)
    found, lse = call(batch, out=out, return_softmax_lse=True, **options)
    assert found is out
    serving.expect(batch, out, lse, **{"mask": "bottom_right", **meant})


def test_rows_beyond_the_last_sequence_are_left_alone() -> None:
    """CUDA graphs pad the queries, and add sequences without queries and keys."""
    batch = serving.make()
    q = torch.cat((batch.q, torch.zeros_like(batch.q[:4])))
    borders = torch.cat((batch.cu_seqlens_q, batch.cu_seqlens_q[-1:].expand(2)))
    table = torch.cat((batch.page_table, torch.zeros_like(batch.page_table[:2])))
    lengths, out = torch.nn.functional.pad(batch.seqused_k, (0, 2)), torch.full_like(q, 7)
    call(batch, q=q, out=out, cu_seqlens_q=borders, seqused_k=lengths, block_table=table, max_seqlen_k=1000)
    serving.expect(batch, out, mask="bottom_right")
    assert (out[-4:] == 7).all()


def test_parts_of_the_keys_are_merged() -> None:
    """Cascade attention and decode context parallelism: attention to a shared prefix and to each sequence's own keys is
    merged."""
    batch = serving.make(((5, 48), (1, 33), (3, 35)))
    borders, shared = batch.cu_seqlens_q, 32
    first = call(batch, causal=False, seqused_k=torch.full((3,), shared).int(), return_softmax_lse=True)
    second = call(
        batch, block_table=batch.page_table[:, 2:], seqused_k=batch.seqused_k - shared, return_softmax_lse=True
    )
    out, lse = fa2.merge(*(torch.stack(parts) for parts in zip(first, second)))
    assert lse.shape == (serving.HEADS, borders[-1])
    serving.expect(batch, out, lse, mask="bottom_right")


def test_encoders_have_no_cache() -> None:
    batch = serving.make(((21, 21), (9, 9)))
    packed = {"k": torch.cat(batch.keys), "v": torch.cat(batch.values), "cu_seqlens_k": batch.cu_seqlens_q}
    out = call(batch, **packed, seqused_k=None, block_table=None, causal=False, window_size=[3, 3])
    serving.expect(batch, out, window=(3, 3))


@pytest.mark.parametrize("k_scale, v_scale", [(0.5, 2.0), ([0.5, 0.25], [2.0, 4.0])], ids=["a layer", "heads"])
def test_caches_of_8_bits_have_a_layers_factors(k_scale: Any, v_scale: Any) -> None:
    batch = serving.with_8_bits(serving.make(), k_scale, v_scale)
    scales = {"k_descale": torch.tensor(k_scale).expand(5, 2), "v_descale": torch.tensor(v_scale).expand(5, 2)}
    out, lse = call(batch, return_softmax_lse=True, **scales)
    serving.expect(batch, out, lse, mask="bottom_right")


def test_factors_of_16_bits_are_ignored() -> None:
    """vLLM passes the scales of a layer whatever its cache holds, also beside a cache of 8 bits: decode context parallelism."""
    batch = serving.make(((21, 21), (9, 9)))
    packed = {"k": torch.cat(batch.keys), "v": torch.cat(batch.values), "cu_seqlens_k": batch.cu_seqlens_q}
    scales = {"k_descale": torch.tensor(3.0).expand(2, 2), "v_descale": torch.tensor(5.0).expand(2, 2)}
    serving.expect(batch, call(batch, **packed, seqused_k=None, block_table=None, **scales), mask="bottom_right")


def test_what_is_not_computed_is_told() -> None:
    with pytest.raises(NotImplementedError, match="mask_mod.*another attention backend"):
        call(serving.make(), mask_mod=lambda *_: True)
    batch = serving.with_8_bits(serving.make(), 1, 1)
    with pytest.raises(fa2.InvalidType, match="q: 8 bits are for k and v alone"):
        call(batch, q=batch.q.to(torch.float8_e4m3fn), out=None)
    with pytest.raises(fa2.InvalidType, match=r"uint8: .* pass x.view\(torch.float8_e4m3fn\)"):
        call(batch, k=batch.k.view(torch.uint8), v=batch.v.view(torch.uint8))


REGISTRY = "vllm.v1.attention.backends.registry"


class Registry(types.ModuleType):
    """A stand-in for vLLM's registry, as far as register() uses it."""

    def __init__(self, path: str | None = None) -> None:
        super().__init__(REGISTRY)
        self.path = path
        self.AttentionBackendEnum = types.SimpleNamespace(CUSTOM=self)

    def is_overridden(self) -> bool:
        return self.path is not None

    def get_path(self) -> str | None:
        return self.path

    def register_backend(self, member: Any, path: str) -> None:
        assert member is self
        self.path = path


def install(monkeypatch: Any, module: str, content: Any) -> None:
    """Installs a fake vLLM that has only this module."""
    for name in ("vllm", "vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backends"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module, content)


def test_register_takes_what_is_free(monkeypatch: Any, recwarn: Any) -> None:
    install(monkeypatch, REGISTRY, registry := Registry())
    fa2.vllm.register()
    fa2.vllm.register()
    assert registry.path == "fa2.vllm.backend.Backend" and not recwarn


def test_register_leaves_what_is_taken(monkeypatch: Any) -> None:
    install(monkeypatch, REGISTRY, registry := Registry("theirs.Backend"))
    with pytest.warns(UserWarning, match="theirs.Backend"):
        fa2.vllm.register()
    assert registry.path == "theirs.Backend"
    install(monkeypatch, REGISTRY, None)
    with pytest.warns(UserWarning, match="takes none"):
        fa2.vllm.register()


SHAPE = """
def flash_attn_varlen_func(**options):
    raise AssertionError("FlashAttention was called")

def get_flash_attn_version(requires_alibi=False):
    return 3

def flash_attn_supports_quant_query_input():
    return True

def flash_attn_supports_kv_cache_dtype(kv_cache_dtype, *, head_size=None):
    return get_flash_attn_version() == 3

class FlashAttentionImpl:
    def __init__(self, kv_cache_dtype="auto"):
        self.version = get_flash_attn_version(requires_alibi=True)
        self.kv_cache_dtype = kv_cache_dtype
        if kv_cache_dtype.startswith("fp8") and not flash_attn_supports_kv_cache_dtype(kv_cache_dtype, head_size=64):
            raise NotImplementedError(kv_cache_dtype)
        self.supports_quant_query_input = flash_attn_supports_quant_query_input()

    def forward(self, layer=None, **options):
        if self.kv_cache_dtype.startswith("fp8"):
            options.update({name: options[name].view(torch.float8_e4m3fn) for name in "kv"})
        if layer is not None:
            shape = len(options["cu_seqlens_q"]) - 1, 2
            options.update(k_descale=layer._k_scale.expand(shape), v_descale=layer._v_scale.expand(shape))
        return flash_attn_varlen_func(fa_version=self.version, **options)

class FlashAttentionMetadataBuilder:
    pass

class FlashAttentionBackend:
    @classmethod
    def supports_kv_cache_dtype(cls, dtype):
        return dtype in cls.supported_kv_cache_dtypes and ("8" not in dtype or flash_attn_supports_kv_cache_dtype(dtype))
"""


def test_forward_reaches_fa2(monkeypatch: Any) -> None:
    """The backend calls fa2 from classes that make vLLM's calls."""
    module = types.ModuleType("vllm.v1.attention.backends.flash_attn")
    vars(module)["torch"] = torch
    exec(SHAPE, vars(module))
    install(monkeypatch, "vllm.v1.attention.backend", attention := types.ModuleType("vllm.v1.attention.backend"))
    attention.AttentionCGSupport = types.SimpleNamespace(UNIFORM_BATCH="uniform")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    sys.modules.pop("fa2.vllm.backend", None)
    found = importlib.import_module("fa2.vllm.backend").Backend
    del sys.modules["fa2.vllm.backend"]
    impl = found.get_impl_cls()()
    assert impl.version == 0 and module.FlashAttentionImpl().version == 3
    batch = serving.make()
    lengths = dict(max_seqlen_q=batch.max_seqlen_q, max_seqlen_k=batch.max_seqlen_k, seqused_k=batch.seqused_k)
    pages = dict(q=batch.q, k=batch.k, v=batch.v, block_table=batch.page_table, cu_seqlens_q=batch.cu_seqlens_q)
    serving.expect(batch, impl.forward(**pages, **lengths, causal=True), mask="bottom_right")
    assert found.get_builder_cls()._cudagraph_support == "uniform"
    scales = types.SimpleNamespace(_k_scale=torch.tensor(0.5), _v_scale=torch.tensor(2.0))
    serving.expect(batch, impl.forward(scales, **pages, **lengths, causal=True), mask="bottom_right")
    for kind in ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3"):
        assert found.supports_combination(64, torch.half, kind) is None
    for kind in ("fp8_e5m2", "fp8_per_token_head", "nvfp4"):
        assert f"kv_cache_dtype = {kind}, must be float16, bfloat16, or fp8" in found.supports_combination(64, torch.half, kind, block_size=16)
    assert "head_size = 72, must be a multiple of 16" in found.supports_combination(72, torch.half, "fp8")
    assert found.supports_combination(72, torch.half, "auto") is None
    assert [size for size in (8, 60, 512, 520) if found.supports_head_size(size)] == [8, 512]
    impl = found.get_impl_cls()("fp8")
    assert impl.supports_quant_query_input is False and found.supports_per_head_quant_scales()
    batch = serving.with_8_bits(batch, 0.5, 2.0)
    pages.update(k=batch.k.view(torch.uint8), v=batch.v.view(torch.uint8))
    serving.expect(batch, impl.forward(scales, **pages, **lengths, causal=True), mask="bottom_right")


@pytest.fixture
def backend() -> Any:
    """Returns fa2.vllm.backend.Backend, found the way vLLM finds it."""
    pytest.importorskip("vllm", reason="vllm is not installed")
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    fa2.vllm.register()
    return AttentionBackendEnum.CUSTOM.get_class()


def reasons(backend: Any, **options: Any) -> list[str]:
    from vllm.platforms.interface import DeviceCapability

    usual: dict[str, Any] = dict(
        head_size=128,
        dtype=torch.bfloat16,
        kv_cache_dtype="auto",
        block_size=16,
        use_mla=False,
        has_sink=False,
        use_sparse=False,
        use_mm_prefix=False,
        use_per_head_quant_scales=False,
        device_capability=DeviceCapability(8, 0),
        attn_type="decoder",
    )
    found: list[str] = backend.validate_configuration(**{**usual, **options})
    return found


def test_vllm_can_choose_it(backend: Any) -> None:
    from vllm.v1.attention.backends import flash_attn

    assert backend.get_name() == "CUSTOM" and issubclass(backend, flash_attn.FlashAttentionBackend)
    assert issubclass(backend.get_impl_cls(), flash_attn.FlashAttentionImpl)
    assert issubclass(backend.get_builder_cls(), flash_attn.FlashAttentionMetadataBuilder)
    assert reasons(backend) == []
    for options in (
        {"has_sink": True, "has_sliding_window": True},
        {"head_size": 256, "dtype": torch.float16},
        {"head_size": 512},
        {"attn_type": "encoder_only"},
        {"use_batch_invariant": True},
        {"use_non_causal": True},
        {"kv_cache_dtype": "fp8"},
        {"kv_cache_dtype": "fp8_e4m3", "use_per_head_quant_scales": True},
    ):
        assert reasons(backend, **options) == []


def test_vllm_is_told_what_is_not_there(backend: Any) -> None:
    assert any("--kv-cache-dtype auto" in reason for reason in reasons(backend, kv_cache_dtype="fp8_e5m2"))
    for options in ({"head_size": 72, "kv_cache_dtype": "fp8"}, {"head_size": 520}, {"use_rswa": True}, {"use_mm_prefix": True}, {"dtype": torch.float32}):
        assert reasons(backend, **options)
    config = types.SimpleNamespace(model_config=types.SimpleNamespace(is_diffusion=True))
    with pytest.raises(NotImplementedError, match="is_diffusion"):
        backend.get_builder_cls()(None, [], config, None)


@pytest.mark.parametrize(
    "layer, meant",
    [
        ({}, {}),
        ({"sliding_window": 8}, {"window": (7, 0)}),
        ({"logits_soft_cap": 5.0}, {"softcap": 5.0}),
        ({"alibi_slopes": SLOPES.tolist()}, {"slopes": SLOPES}),
        ({"sinks": SINKS}, {"sinks": SINKS}),
        ({"kv_cache_dtype": "fp8"}, {}),
    ],
)
def test_vllms_forward(backend: Any, layer: Any, meant: Any) -> None:
    from vllm.v1.attention.backends.flash_attn import FlashAttentionMetadata

    batch, scale = serving.make(), torch.ones(1)
    cache = serving.cache_of(batch)
    if "kv_cache_dtype" in layer:
        batch, scale = serving.with_8_bits(batch, 0.5, 0.5), torch.tensor([0.5])
        cache = serving.cache_of(batch).view(torch.uint8)
    usual = dict(alibi_slopes=None, sliding_window=None, kv_cache_dtype="auto")
    impl = backend.get_impl_cls()(
        serving.HEADS, serving.HEAD_DIM, serving.HEAD_DIM**-0.5, serving.HEADS_KV, **{**usual, **layer}
    )
    metadata = FlashAttentionMetadata(
        num_actual_tokens=len(batch.q),
        max_query_len=batch.max_seqlen_q,
        query_start_loc=batch.cu_seqlens_q,
        max_seq_len=batch.max_seqlen_k,
        seq_lens=batch.seqused_k,
        block_table=batch.page_table,
        slot_mapping=torch.zeros(len(batch.q), dtype=torch.int64),
    )
    assert not impl.supports_quant_query_input
    scales = types.SimpleNamespace(_q_scale=torch.ones(1), _k_scale=scale, _v_scale=scale)
    out = torch.full((len(batch.q) + 3, serving.HEADS, serving.HEAD_DIM), 7.0, dtype=batch.q.dtype)
    fresh = torch.zeros(len(batch.q), serving.HEADS_KV, serving.HEAD_DIM)
    impl.forward(scales, batch.q, fresh, fresh, cache, metadata, out)
    serving.expect(batch, out, mask="bottom_right", **meant)
    assert (out[len(batch.q) :] == 7).all()
