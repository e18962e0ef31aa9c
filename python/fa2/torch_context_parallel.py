"""PyTorch's context parallelism on fa2: torch.distributed.tensor.experimental.context_parallel() of PyTorch 2.11.

    import fa2.torch_context_parallel
    fa2.torch_context_parallel.install()
    with context_parallel(mesh, buffers=[tokens, labels], buffer_seq_dims=[1, 1]):
        ...  # scaled_dot_product_attention() of these shards runs fa2.context_parallel.attention()

install() holds for the process. PyTorch hands scaled_dot_product_attention() DTensors that are sharded along tokens, and fa2
computes those. All other calls are as before. The layout is PyTorch's: zigzag, or contiguous without its load balancing.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F

from . import _core, _mistakes
from ._padding import pad_head_dim

__all__ = ["install", "is_active", "uninstall"]

_TOKENS = 2  # the dimension of (batch, heads, tokens, head_dim) that PyTorch shards

#: fa2's function and the one that it replaces; empty before install().
_installed: list[Any] = []


def is_active() -> bool:
    """Returns whether scaled_dot_product_attention() takes its tensors for shards: within context_parallel()."""
    return "torch.distributed.tensor" in (getattr(F.scaled_dot_product_attention, "__module__", None) or "")


def install(*, scheme: str = "automatic", groups: int = 0) -> None:
    """Makes fa2 compute attention within context_parallel(), in all threads. Must be called outside of it, on all ranks.

    scheme, groups: those of fa2.context_parallel.attention(). May be called again, for others.
    """
    try:
        from torch.distributed.tensor import DTensor
        from torch.distributed.tensor.experimental._attention import _cp_options  # noqa: F401
    except ImportError as error:
        raise RuntimeError(f"PyTorch = {torch.__version__}, must have context parallelism as PyTorch 2.11 has it") from error
    uninstall()
    original: Any = F.scaled_dot_product_attention

    @functools.wraps(original)
    def attend(*args: Any, **kwargs: Any) -> Any:
        tensors = (x for x in itertools.chain(args[:3], kwargs.values()) if isinstance(x, DTensor))
        if any(placement.is_shard(_TOKENS) for x in tensors for placement in x.placements):
            return _attend_shards(*args, **kwargs, travel=dict(scheme=scheme, groups=groups))
        return original(*args, **kwargs)

    F.scaled_dot_product_attention = attend
    _installed[:] = attend, original


def uninstall() -> None:
    """Undoes install(). Must be called outside of context_parallel()."""
    if is_active():
        raise _core.InvalidRequest("context_parallel() = entered, must be left: call install() and uninstall() outside of it")
    if _installed:
        if F.scaled_dot_product_attention is not _installed[0]:
            raise _core.InvalidRequest("scaled_dot_product_attention = another library's, must be fa2's: undo that replacement first")
        F.scaled_dot_product_attention = _installed[1]
        _installed.clear()


def attend_layer(tensors: Iterable[Any], refused: list[str], options: dict[str, Any]) -> Any:
    """Returns attention within context_parallel() with options of fa2.context_parallel.attention().

    tensors: query, key and value in PyTorch's shapes.
    refused: arguments that are given, but must not be.
    """
    if not _installed:
        raise _core.InvalidRequest(
            "attention on fa2 = within context_parallel(), must have all tokens: call fa2.torch_context_parallel.install() before it"
        )
    return F.scaled_dot_product_attention(*tensors, fa2_options=options, refused=refused)  # type: ignore[call-arg]


def _mistakes_of(tensors: tuple[Any, ...], enable_gqa: bool, refused: list[str], rotation: str) -> list[str]:
    query, key, _ = tensors
    rule = "must be None within context_parallel(): pass is_causal=True, and to models of transformers attention_mask of ones, sharded"
    broken = [f"{name} = given, {rule}" for name in refused]
    for name, x in zip(("query", "key", "value"), tensors):
        placed = getattr(x, "placements", None)
        if placed is None or len(placed) != 1 or not placed[0].is_shard(_TOKENS) or x.device_mesh != query.device_mesh or x.ndim != 4:
            form = "(batch, heads, tokens, head_dim) with tokens sharded over one mesh of one dimension"
            broken.append(f"{name} = {tuple(x.shape)}, placed {placed}, must be {form}")
    if rotation != "ALL_GATHER":
        broken.append(f'set_rotate_method() = {rotation}, must be "allgather" on fa2: pass scheme= to install(), which says what travels')
    if not broken and not enable_gqa and query.shape[1] != key.shape[1]:
        broken.append(f"enable_gqa = False, must be True with {query.shape[1]} query heads and {key.shape[1]} key heads")
    return broken


def _attend_shards(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False, fa2_options: dict[str, Any] | None = None, refused: Any = (), travel: Any,
) -> Any:  # fmt: skip
    """Computes scaled_dot_product_attention() of DTensors. fa2_options: in place of the other options."""
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.experimental._attention import _cp_options

    from . import context_parallel as cp
    from ._shard_plan import agree, all_check

    tensors = query, key, value
    mesh: Any = getattr(query, "device_mesh", None)
    refused = [*refused, *(() if attn_mask is None else ("attn_mask",))]
    if broken := _mistakes_of(tensors, enable_gqa or fa2_options is not None, refused, _cp_options.rotate_method.name):
        error = _mistakes.invalid_request(broken)
        if mesh is not None and mesh.ndim == 1 and all_check(query):
            agree(mesh.get_group(), None, error)
        raise error
    options: dict[str, Any] = fa2_options or dict(causal=bool(is_causal), dropout_p=dropout_p, softmax_scale=scale)
    if options["softmax_scale"] is None:
        options["softmax_scale"] = query.shape[-1] ** -0.5
    q, k, v = (pad_head_dim(_cast(x.to_local().transpose(1, 2))) for x in tensors)
    layout: Any = "zigzag" if _cp_options.enable_load_balance else "contiguous"
    out = cp.attention(q, k, v, group=mesh.get_group(), layout=layout, **travel, **options)
    return DTensor.from_local(out[..., : value.shape[-1]].transpose(1, 2), mesh, query.placements, run_check=False)


def _cast(x: torch.Tensor) -> torch.Tensor:
    """Returns the tensor as autocast hands it to scaled_dot_product_attention()."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) and x.dtype == torch.float32 else x
