"""fa2 as SGLang's attention: its functions against float64, and its backend in the real SGLang if that is installed."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import serving_batch as serving  # noqa: E402

import fa2  # noqa: E402
import fa2.sglang  # noqa: E402

SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0])


def call(batch: serving.Batch, **options: Any) -> Any:
    """Calls fa2 as SGLang's backend does for a decoder layer."""
    given: dict[str, Any] = dict(
        q=batch.q,
        k_cache=batch.k,
        v_cache=batch.v,
        page_table=batch.page_table,
        cache_seqlens=batch.seqused_k,
        cu_seqlens_q=batch.cu_seqlens_q,
        cu_seqlens_k_new=torch.nn.functional.pad(batch.seqused_k.cumsum(0, dtype=torch.int32), (1, 0)),
        max_seqlen_q=batch.max_seqlen_q,
        softmax_scale=serving.HEAD_DIM**-0.5,
        causal=True,
        window_size=(-1, -1),
        softcap=0.0,
        return_softmax_lse=False,
        num_splits=0,
        out=None,
        ver=0,
    )
    return fa2.sglang.flash_attn_with_kvcache(**{**given, **options})


@pytest.mark.parametrize("name, given", serving.recorded("sglang"))
def test_takes_what_sglang_hands_over(name: str, given: list[str]) -> None:
    """fa2's functions take every recorded keyword, except those that only FlashAttention-4 uses."""
    left = serving.unknown(getattr(fa2.sglang, name), given)
    if name == "flash_attn_with_kvcache":  # it passes unknown keywords on
        left -= set(inspect.signature(fa2.sglang.flash_attn_varlen_func).parameters)
    assert left <= {"aux_tensors", "mask_mod", "rel_bias", "rel_bias_prep_cache", "score_mod"}


@pytest.mark.parametrize(
    "options, meant",
    [
        ({}, {}),
        ({"window_size": (7, 0)}, {"window": (7, 0)}),
        ({"causal": False}, {"mask": None}),
        ({"softcap": 5.0}, {"softcap": 5.0}),
        ({"sinks": SINKS.half(), "window_size": (15, 0)}, {"sinks": SINKS, "window": (15, 0)}),
        ({"k_descale": torch.ones(5, 2), "v_descale": torch.ones(5, 2), "num_splits": 1}, {}),
    ],
)
def test_prefill_and_decode_in_one_batch(options: Any, meant: Any) -> None:
    batch = serving.make()
    out = torch.empty_like(batch.q)
    found, lse = call(batch, out=out, return_softmax_lse=True, **options)
    assert found is out
    serving.expect(batch, out, lse, **{"mask": "bottom_right", **meant})


@pytest.mark.parametrize("shape", [(5, 2), (1, 2), (1, 1)])
def test_caches_of_8_bits_have_a_layers_factors(shape: Any) -> None:
    batch = serving.with_8_bits(serving.make(), 0.5, 2.0)
    out, lse = call(
        batch, return_softmax_lse=True, k_descale=torch.tensor(0.5).expand(shape), v_descale=torch.tensor(2.0).expand(shape)
    )
    serving.expect(batch, out, lse, mask="bottom_right")
    with pytest.raises(fa2.InvalidRequest, match=r"k_descale.shape = \(3, 2\), must be \(5, 2\)"):
        call(batch, k_descale=torch.ones(3, 2))


def test_tables_are_a_graphs_of_the_longest_context() -> None:
    """Decoding: pages hold one row each, and the table is a slice of a wider one."""
    batch = serving.make(((1, 33), (1, 1), (1, 50)))
    rows = (batch.page_table[:, :, None] * serving.PAGE + torch.arange(serving.PAGE)).flatten(1).int()
    wide = torch.cat((rows, torch.zeros_like(rows)), 1)[:, : rows.shape[1] + 5]
    k, v = (x.reshape(-1, 1, *x.shape[2:]) for x in (batch.k, batch.v))
    serving.expect(batch, call(batch, k_cache=k, v_cache=v, page_table=wide), mask="bottom_right")


def test_parts_of_the_keys_are_merged() -> None:
    """Speculative trees: attention to the verified keys and to each tree token's own keys, one page per key, is
    merged."""
    batch = serving.make(((5, 37), (5, 45)))
    counts = batch.cu_seqlens_q.diff()
    first = call(batch, cache_seqlens=batch.seqused_k - counts, causal=False, return_softmax_lse=True)
    tails = [[x[-5:] for x in own] for own in (batch.keys, batch.values)]
    k, v = (torch.cat(own)[:, None] for own in tails)
    seen = torch.cat([torch.arange(5).repeat(5, 1) + 5 * b for b in range(2)]).int()
    alone = dict(page_table=seen, cache_seqlens=serving.int32([1, 2, 3, 4, 5] * 2), max_seqlen_q=1)
    borders = serving.int32(range(11))
    second = call(
        batch, k_cache=k, v_cache=v, **alone, cu_seqlens_q=borders, causal=False, return_softmax_lse=True
    )
    out, lse = fa2.merge(*(torch.stack(parts) for parts in zip(first, second)))
    serving.expect(batch, out, lse, mask="bottom_right")


def test_embeddings_have_no_cache() -> None:
    batch = serving.make(((21, 21), (9, 9)))
    packed = (torch.cat(batch.keys), torch.cat(batch.values), batch.cu_seqlens_q, batch.cu_seqlens_q, 21, 21)
    out = fa2.sglang.flash_attn_varlen_func(batch.q, *packed, window_size=(3, 3), softcap=0.0, num_splits=0, out=None)
    serving.expect(batch, out, window=(3, 3))


class Latents:
    """Queries of three sequences over pages of latents, 256 columns that are keys and values and 32 rotated ones."""

    LATENT, DIM, HEADS, PAGE, COUNTS, LENGTHS = 256, 288, 2, 4, (2, 1, 3), (9, 1, 6)

    def __init__(self) -> None:
        torch.manual_seed(0)
        tokens, tables = sum(self.COUNTS), torch.arange(9).view(3, 3).flip(1)
        self.q = torch.randn(tokens, self.HEADS, self.DIM).half()
        self.pages = torch.randn(9, self.PAGE, 1, self.DIM).half()
        lengths = dict(page_table=tables.int(), cache_seqlens=serving.int32(self.LENGTHS), cu_seqlens_q=serving.int32([0, 2, 3, 6]))
        self.options: dict[str, Any] = dict(lengths, max_seqlen_q=3, softmax_scale=0.1, causal=True)
        self.tables = tables

    def parts(self) -> dict[str, Any]:
        """Returns what SGLang passes: queries and pages in two parts, rotated columns first."""
        n = self.LATENT
        return dict(q=self.q[..., n:], qv=self.q[..., :n], k_cache=self.pages[..., n:], v_cache=self.pages[..., :n], **self.options)

    def expect(self, out: Any) -> None:
        first = 0
        for count, length, table in zip(self.COUNTS, self.LENGTHS, self.tables):
            keys = self.pages[table].flatten(0, 1)[:length, 0].double()
            scores = 0.1 * torch.einsum("qhd,kd->hqk", self.q[first : first + count].double(), keys)
            scores += torch.full((count, length), -torch.inf).triu(length - count + 1)
            wanted = torch.einsum("hqk,kd->qhd", scores.softmax(-1), keys[:, : self.LATENT])
            torch.testing.assert_close(out[first : first + count].double(), wanted, atol=4e-3, rtol=2e-3)
            first += count


def test_parts_of_latents_are_views_of_one_cache(monkeypatch: Any) -> None:
    """Queries and pages whose parts follow each other in memory are not copied."""
    latents = Latents()
    monkeypatch.setattr(torch, "cat", None)
    out = fa2.sglang.flash_attn_with_kvcache(**latents.parts(), ver=3, num_splits=0, window_size=(-1, -1), k_descale=None)
    latents.expect(out)


def test_latents_of_8_bits_have_one_factor() -> None:
    latents, factors = Latents(), dict(k_descale=torch.ones(3, 1), v_descale=torch.ones(3, 1))
    latents.expect(fa2.sglang.flash_attn_with_kvcache(**latents.parts(), **factors))  # ignored with 16 bits
    parts = latents.parts()
    parts.update(k_cache=parts["k_cache"].to(torch.float8_e4m3fn), v_cache=parts["v_cache"].to(torch.float8_e4m3fn))
    with pytest.raises(NotImplementedError, match="must be one with qv"):
        fa2.sglang.flash_attn_with_kvcache(**parts, **factors)


def test_what_is_not_computed_is_told() -> None:
    with pytest.raises(NotImplementedError, match="rel_bias, score_mod.*another attention backend"):
        call(serving.make(), rel_bias=SINKS, score_mod=lambda *_: 0, mask_mod=None)


def test_register(monkeypatch: Any) -> None:
    """register() adds the backend to SGLang's registry, and to the lists that models with latent attention read."""
    registry, arguments = types.ModuleType("registry"), types.ModuleType("arguments")
    backends: dict[str, Any] = {"fa3": None}
    choices, chunked = ["fa3"], ["fa3"]
    vars(registry).update(
        ATTENTION_BACKENDS=backends, register_attention_backend=lambda name: lambda made: backends.update({name: made})
    )
    vars(arguments).update(ATTENTION_BACKEND_CHOICES=choices, add_attention_backend_choices=choices.extend)
    vars(arguments).update(CHUNKED_PREFIX_CACHE_SUPPORTED_ATTENTION_BACKENDS=chunked)
    for name in ("sglang", "sglang.srt", "sglang.srt.layers", "sglang.srt.layers.attention"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "sglang.srt.layers.attention.attention_registry", registry)
    monkeypatch.setitem(sys.modules, "sglang.srt.server_args", arguments)
    vars(sys.modules["sglang.srt"])["server_args"] = arguments
    assert fa2.sglang.register() == fa2.sglang.register() == "fa2"
    assert choices == chunked == ["fa3", "fa2"] and callable(backends["fa2"])
    with pytest.raises(ValueError, match="fa3"):
        fa2.sglang.register("fa3")


SHAPE = """
def flash_attn_with_kvcache(**options):
    raise AssertionError("FlashAttention was called")

class FlashAttentionBackend:
    def __init__(self, model_runner, skip_prefill=False, fa_impl_ver=3):
        self.fa_impl_ver, self.skip_prefill = fa_impl_ver, skip_prefill

    def prepare_paged_mha_query(self, q, q_rope, k_rope, layer, *, logical_batch_size, kv_head_num, is_prefill):
        raise AssertionError("a query was cast to the dtype of the cache")

    def forward_absorbed(self, **options):
        assert self.fa_impl_ver in (3, 4), "Only FA3/FA4 support here"
        return flash_attn_with_kvcache(ver=self.fa_impl_ver, num_splits=0, **options)

    def forward_decode(self, layer=None, **options):
        if layer is not None:
            sizes = dict(logical_batch_size=len(options["cache_seqlens"]), kv_head_num=2, is_prefill=False)
            options["q"], _, _, k, v = self.prepare_paged_mha_query(options["q"], None, None, layer, **sizes)
            options.update(k_descale=k, v_descale=v)
        return flash_attn_with_kvcache(ver=self.fa_impl_ver, **options)
"""


@pytest.fixture(params=["of its shape", "installed"])
def backend(request: Any, monkeypatch: Any) -> Any:
    """Returns fa2.sglang.backend.Backend over SGLang's own class, or over a class that makes the same calls."""
    name = "sglang.srt.layers.attention.flashattention_backend"
    if request.param == "installed":
        pytest.importorskip("sglang", reason="sglang is not installed")
        pytest.importorskip("sgl_kernel", reason="sgl_kernel is not installed")
        pytest.importorskip(name)
    else:
        module = types.ModuleType(name)
        exec(SHAPE, vars(module))
        for parent in ("sglang", "sglang.srt", "sglang.srt.layers", "sglang.srt.layers.attention"):
            monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules.pop("fa2.sglang.backend", None)
    yield importlib.import_module("fa2.sglang.backend").Backend
    del sys.modules["fa2.sglang.backend"]


def runner(**changes: Any) -> Any:
    usual = dict(use_mla_backend=False, kv_cache_dtype=torch.bfloat16, model_config=types.SimpleNamespace(head_dim=128))
    return types.SimpleNamespace(**{**usual, **changes})


@pytest.mark.parametrize(
    "changes, told",
    [
        (
            {"use_mla_backend": True, "kv_cache_dtype": torch.float8_e4m3fn},
            "kv_cache_dtype = float8_e4m3fn, must be of 16 bits with multi-head latent attention",
        ),
        ({"kv_cache_dtype": torch.float8_e5m2}, "kv_cache_dtype = float8_e5m2, must be float16, bfloat16 or float8_e4m3fn"),
        ({"kv_cache_dtype": torch.float8_e4m3fnuz}, "kv_cache_dtype = float8_e4m3fnuz, must be"),
        ({"kv_cache_dtype": torch.float8_e4m3fn, "kv_cache_dtype_str": "mxfp8"}, "mxfp8, must have one factor"),
        (
            {"kv_cache_dtype": torch.float8_e4m3fn, "model_config": types.SimpleNamespace(head_dim=72)},
            "head_dim = 72, must be a multiple of 16",
        ),
        ({"model_config": types.SimpleNamespace(head_dim=520)}, "head_dim = 520, must be a multiple of 8 up to 512"),
    ],
)
def test_sglang_is_told_what_is_not_there(backend: Any, changes: Any, told: str) -> None:
    with pytest.raises(fa2.InvalidRequest, match=told):
        backend(runner(**changes))


@pytest.mark.parametrize("backend", ["of its shape"], indirect=True)
def test_forward_reaches_fa2(backend: Any) -> None:
    batch = serving.make(((1, 33), (1, 1)))
    backend(runner(model_config=types.SimpleNamespace(head_dim=512)))
    made = backend(runner(), skip_prefill=True)
    assert made.skip_prefill and made.fa_impl_ver == 0
    options = dict(q=batch.q, k_cache=batch.k, v_cache=batch.v, page_table=batch.page_table, max_seqlen_q=1)
    out = made.forward_decode(
        **options, cu_seqlens_q=batch.cu_seqlens_q, cache_seqlens=batch.seqused_k, causal=True
    )
    serving.expect(batch, out, mask="bottom_right")
    made = backend(runner(kv_cache_dtype=torch.float8_e4m3fn))
    batch = serving.with_8_bits(batch, 0.5, 2.0)
    options.update(k_cache=batch.k, v_cache=batch.v, cu_seqlens_q=batch.cu_seqlens_q, cache_seqlens=batch.seqused_k)
    layer = types.SimpleNamespace(k_scale=torch.tensor([0.5]), v_scale=torch.tensor([2.0]))
    serving.expect(batch, made.forward_decode(layer, causal=True, **options), mask="bottom_right")
    layer = types.SimpleNamespace(k_scale=None, v_scale=None)
    batch = serving.with_8_bits(serving.make(((1, 33), (1, 1))), 1, 1)
    serving.expect(batch, made.forward_decode(layer, causal=True, **options), mask="bottom_right")


@pytest.mark.parametrize("backend", ["of its shape"], indirect=True)
def test_models_with_latents_reach_fa2(backend: Any, monkeypatch: Any) -> None:
    latents = Latents()
    latents.expect(backend(runner(use_mla_backend=True)).forward_absorbed(**latents.parts()))
    serve_latents = sys.modules["fa2.sglang.backend"].serve_latents  # type: ignore[attr-defined]
    with pytest.raises(fa2.InvalidRequest, match="use_mla_backend = True, must be False with this SGLang"):
        serve_latents(["fa2"])
    handlers: dict[str, Any] = {}
    absorbing = ["fa3"]
    models = {name: types.ModuleType(name) for name in ("models", "deepseek_common", "utils", "attention_backend_handler")}
    vars(models["utils"])["FORWARD_ABSORB_CORE_ATTENTION_BACKENDS"] = absorbing
    registry = types.SimpleNamespace(register=lambda name, handler: handlers.update({name: handler}))
    vars(models["attention_backend_handler"]).update(AttentionBackendRegistry=registry, handle_attention_fa3="as fa3")
    vars(models["deepseek_common"])["utils"] = models["utils"]
    monkeypatch.setitem(sys.modules, "sglang.srt.models", models["models"])
    monkeypatch.setitem(sys.modules, "sglang.srt.models.deepseek_common", models["deepseek_common"])
    monkeypatch.setitem(sys.modules, "sglang.srt.models.deepseek_common.utils", models["utils"])
    monkeypatch.setitem(sys.modules, "sglang.srt.models.deepseek_common.attention_backend_handler", models["attention_backend_handler"])
    serve_latents(["fa2", "mine"])
    serve_latents(["fa2"])
    assert absorbing == ["fa3", "fa2", "mine"] and handlers == {"fa2": "as fa3", "mine": "as fa3"}


@pytest.mark.parametrize("backend", ["of its shape"], indirect=True)
def test_a_sglang_that_casts_queries_is_told(backend: Any) -> None:
    del sys.modules["sglang.srt.layers.attention.flashattention_backend"].FlashAttentionBackend.prepare_paged_mha_query  # type: ignore[attr-defined]
    backend(runner())
    with pytest.raises(fa2.InvalidRequest, match="quantises queries too: update it to 0.5.23"):
        backend(runner(kv_cache_dtype=torch.float8_e4m3fn))


@pytest.mark.parametrize("backend", ["installed"], indirect=True)
def test_sglang_can_choose_it(backend: Any) -> None:
    from sglang.srt.layers.attention import attention_registry, flashattention_backend
    from sglang.srt.server_args import ATTENTION_BACKEND_CHOICES

    name = fa2.sglang.register()
    assert name in attention_registry.ATTENTION_BACKENDS and name in ATTENTION_BACKEND_CHOICES
    assert issubclass(backend, flashattention_backend.FlashAttentionBackend)
    scope = backend.forward_extend.__globals__
    assert scope["flash_attn_with_kvcache"] is fa2.sglang.flash_attn_with_kvcache
    assert flashattention_backend.flash_attn_with_kvcache is not fa2.sglang.flash_attn_with_kvcache
