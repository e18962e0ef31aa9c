"""Which rank holds which tokens, and what follows from that for tensors of PyTorch."""

from __future__ import annotations

import ctypes as C
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import _core, _hooks, _library, _mistakes

_CONTIGUOUS, _ZIGZAG = 0, 1

#: Begin and end of consecutive tokens.
Slice = tuple[int, int]


def borders_of(cu_seqlens: Any) -> tuple[int, ...] | None:
    """Returns where documents begin, and the end, as numbers; None for None. Takes a list or a tensor on the CPU."""
    if cu_seqlens is None:
        return None
    if getattr(cu_seqlens, "is_cuda", False):
        raise _core.InvalidRequest(
            "cu_seqlens = a CUDA tensor, must be on the host, which plans with it: pass its tolist(), made once per batch"
        )
    try:
        return tuple(int(x) for x in (cu_seqlens.tolist() if hasattr(cu_seqlens, "tolist") else cu_seqlens))
    except (TypeError, ValueError):
        text = _hooks.text_of(cu_seqlens)
        raise _core.InvalidType(f"cu_seqlens = {text}, must be integers: pass [0, 1000, 4096] for two documents") from None


def _slices_of(handle: C.c_void_p, ranks: int) -> tuple[tuple[Slice, ...], ...]:
    """Returns the slices of each rank, and frees the layout."""
    found = []
    borders, count = C.POINTER(C.c_int64)(), C.c_size_t()
    try:
        for rank in range(ranks):
            _library.call("shard_layout_slices", handle, rank, C.byref(borders), C.byref(count))
            found.append(tuple((borders[2 * i], borders[2 * i + 1]) for i in range(count.value)))
    finally:
        _library.call("shard_layout_destroy", handle)
    return tuple(found)


class Layout:
    """Which rank holds which tokens of the global stream: one sequence, or packed documents one after the other.

    A rank's tensors have its slices one after the other. Ranks may hold different numbers of tokens, and none. Immutable.
    """

    __slots__ = ("cu_seqlens", "ranks", "tokens")
    tokens: int  #: of the stream
    ranks: tuple[tuple[Slice, ...], ...]  #: slices (begin, end) per rank, in ascending order
    cu_seqlens: tuple[int, ...] | None  #: where documents begin, and the end; None: one sequence

    def __init__(self, tokens: int, ranks: Iterable[Iterable[Slice]], cu_seqlens: Any = None) -> None:
        """Makes a layout of any slices, as of_slices()."""
        given = tuple(tuple((int(begin), int(end)) for begin, end in slices) for slices in ranks)
        self._set(tokens, _slices_of(_made(tokens, given), len(given)), borders_of(cu_seqlens))

    def _set(self, tokens: int, ranks: tuple[tuple[Slice, ...], ...], cu_seqlens: tuple[int, ...] | None) -> None:
        broken = []
        if cu_seqlens is not None and (cu_seqlens[:1] != (0,) or list(cu_seqlens) != sorted(cu_seqlens)):
            broken.append(f"cu_seqlens = {_hooks.text_of(cu_seqlens)}, must ascend from 0")
        elif cu_seqlens is not None and cu_seqlens[-1] != tokens:
            broken.append(f"cu_seqlens[-1] = {cu_seqlens[-1]}, must be {tokens} = tokens")
        if broken:
            raise _mistakes.invalid_request(broken)
        for name, value in (("tokens", tokens), ("ranks", ranks), ("cu_seqlens", cu_seqlens)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a Layout cannot be set: make another one")

    @classmethod
    def zigzag(cls, tokens: int, ranks: int, granule: int = 128, cu_seqlens: Any = None) -> Layout:
        """Returns chunks r and 2 * ranks - 1 - r of 2 * ranks for rank r, of each document: equal work under a causal mask.

        Chunks begin at multiples of `granule` tokens of the document. cu_seqlens: where documents begin, and the end, on the
        host.
        """
        return cls._divided(_ZIGZAG, tokens, ranks, granule, cu_seqlens)

    @classmethod
    def contiguous(cls, tokens: int, ranks: int, granule: int = 128, cu_seqlens: Any = None) -> Layout:
        """Returns chunk r of `ranks` chunks of the stream for rank r. Otherwise as zigzag()."""
        return cls._divided(_CONTIGUOUS, tokens, ranks, granule, cu_seqlens)

    @classmethod
    def of_slices(cls, tokens: int, ranks: Iterable[Iterable[Slice]], cu_seqlens: Any = None) -> Layout:
        """Returns a layout of slices (begin, end) per rank, which must hold each token once."""
        return cls(tokens, ranks, cu_seqlens)

    @classmethod
    def _divided(cls, kind: int, tokens: int, ranks: int, granule: int, cu_seqlens: Any) -> Layout:
        borders = borders_of(cu_seqlens)
        given, documents = (None, 0) if borders is None else (_library.longs(borders), len(borders) - 1)
        handle = _library.made("shard_layout_create", kind, tokens, given, documents, ranks, granule)
        layout = object.__new__(cls)
        layout._set(tokens, _slices_of(handle, ranks), borders)
        return layout

    def slices(self, rank: int) -> tuple[Slice, ...]:
        """Returns (begin, end) of each slice of a rank."""
        return self.ranks[_checked_rank(rank, self)]

    def tokens_of(self, rank: int) -> int:
        """Returns the number of tokens of a rank."""
        return sum(end - begin for begin, end in self.slices(rank))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Any:
        return self.tokens, self.ranks, self.cu_seqlens

    def __repr__(self) -> str:
        parts = [" ".join((str(rank), *(f"[{b}, {e})" for b, e in held))) for rank, held in enumerate(self.ranks)]
        documents = "" if self.cu_seqlens is None else f"; documents end at {', '.join(map(str, self.cu_seqlens[1:]))}"
        return f"<Layout of {self.tokens} tokens: {'; '.join(parts)}{documents}>"

    def __reduce__(self) -> Any:
        return Layout, (self.tokens, self.ranks, self.cu_seqlens)


def _made(tokens: int, ranks: Sequence[Sequence[Slice]]) -> C.c_void_p:
    """Returns a handle of a layout. The caller must destroy it."""
    counts = (C.c_size_t * len(ranks))(*(len(slices) for slices in ranks))
    borders = _library.longs([x for slices in ranks for piece in slices for x in piece] or [0])
    return _library.made("shard_layout_of_slices", tokens, len(ranks), counts, borders)


def handle_of(layout: Layout) -> C.c_void_p:
    """Returns a handle of the layout. The caller must destroy it."""
    return _made(layout.tokens, layout.ranks)


def _checked_rank(rank: int, layout: Layout) -> int:
    if not 0 <= rank < len(layout.ranks):
        raise _core.InvalidRequest(f"rank = {rank}, must be in 0..{len(layout.ranks) - 1} = the layout's ranks")
    return rank


def _rank_of(rank: int | None, group: Any) -> int:
    return dist.get_rank(group) if rank is None else rank


def _require_tokens(tensor: torch.Tensor, dim: int, tokens: int, whose: str) -> None:
    size = tensor.shape[dim]
    if size != tokens:
        raise _core.InvalidRequest(f"tensor.shape[{dim}] = {size}, must be {tokens} = tokens of {whose}")


def shard(tensor: torch.Tensor, layout: Layout, rank: int | None = None, *, group: Any = None, dim: int = 1) -> torch.Tensor:
    """Returns the rank's tokens of a tensor that has all of them along `dim`. Differentiable, without an exchange.

    rank: None for the own rank in `group`, PyTorch's process group; None for the default one.
    """
    _require_tokens(tensor, dim, layout.tokens, "the layout")
    parts = [tensor.narrow(dim, begin, end - begin) for begin, end in layout.slices(_rank_of(rank, group))]
    return torch.cat(parts, dim) if parts else tensor.narrow(dim, 0, 0)


def unshard(tensor: torch.Tensor, layout: Layout, *, group: Any = None, dim: int = 1) -> torch.Tensor:
    """Returns all tokens, on every rank, of tensors that shard() could have made. All ranks must call it. Not differentiable."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if size != len(layout.ranks):
        raise _core.InvalidRequest(f"layout.ranks = {len(layout.ranks)}, must be {size} = ranks of the group")
    _require_tokens(tensor, dim, layout.tokens_of(rank), f"rank {rank}")
    rows = tensor.detach().movedim(dim, 0)
    most = max(layout.tokens_of(other) for other in range(size))
    mine = rows.new_zeros((most, *rows.shape[1:]))
    mine[: len(rows)] = rows
    parts = [torch.empty_like(mine) for _ in range(size)]
    if mine.numel():
        dist.all_gather([_bytes_of(part) for part in parts], _bytes_of(mine), group)
    whole = rows.new_empty((layout.tokens, *rows.shape[1:]))
    for part, slices in zip(parts, layout.ranks):
        at = 0
        for begin, end in slices:
            whole[begin:end] = part[at : at + end - begin]
            at += end - begin
    return whole.movedim(0, dim).contiguous()


def _bytes_of(x: torch.Tensor) -> torch.Tensor:
    """Returns a view that backends without the dtype can send."""
    return x.view(-1).view(torch.uint8)


def _documents_of(layout: Layout) -> Iterable[Slice]:
    return itertools.pairwise(layout.cu_seqlens or (0, layout.tokens))


def positions(layout: Layout, rank: int | None = None, *, group: Any = None, device: Any = None) -> torch.Tensor:
    """Returns the position of each token of a rank in its document, or in the one sequence: int64 (tokens), for rotary embeddings."""
    rank = _rank_of(rank, group)
    numbers = [torch.arange(end - begin) for begin, end in _documents_of(layout)]
    return shard(torch.cat(numbers), layout, rank, dim=0).to(device)


def shift_labels(
    labels: torch.Tensor, layout: Layout, rank: int | None = None, ignore_index: int = -100, *, group: Any = None
) -> torch.Tensor:
    """Returns the label of the next token for each token of a rank. labels: (..., tokens) of all tokens.

    The last token of each document gets ignore_index. Shifting before sharding keeps labels of tokens whose next one is on
    another rank. The loss must not shift them again.
    """
    _require_tokens(labels, -1, layout.tokens, "the layout")
    shifted = labels.roll(-1, -1)
    shifted[..., [end - 1 for begin, end in _documents_of(layout) if end > begin]] = ignore_index
    return shard(shifted, layout, _rank_of(rank, group), dim=-1)
