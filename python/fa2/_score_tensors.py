"""Tensors in the place of a function of scores: a bias, whose elements are added to scores, or a mask of bools."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _core, _hooks
from ._call import CU_SEQLENS_K, CU_SEQLENS_Q, MAX_SEQLEN_K, MAX_SEQLEN_Q, PAGE_TABLE
from ._score_values import Table

_AXES = ("batch", "heads_q", "seqlen_q", "seqlen_k")
_PLACES = ("at.batch", "at.head", "at.query", "at.key")
_FEWEST = 2  # dimensions
_FLOATS = ("float16", "bfloat16", "float32")

#: batch, heads_q, seqlen_q, seqlen_k of a call; None: unknown.
Sizes = tuple[Any, Any, Any, Any]


def sizes_of(q: Any, k: Any, options: Any) -> Sizes | None:
    """Returns the sizes of a call of (batch, seqlen, heads, head_dim), or packed. None: of tensors that have none.

    options: a tuple like Options.
    """
    cu_q, cu_k, table = options[CU_SEQLENS_Q], options[CU_SEQLENS_K], options[PAGE_TABLE]
    if q.ndim != (4 if cu_q is None else 3) or k.ndim != (4 if cu_k is None else 3):
        return None
    batch, seqlen_q = (q.shape[0], q.shape[1]) if cu_q is None else (cu_q.shape[0] - 1, options[MAX_SEQLEN_Q])
    seqlen_k = k.shape[1] if cu_k is None else options[MAX_SEQLEN_K]
    if table is not None:
        room, most = table.shape[1] * k.shape[1], options[MAX_SEQLEN_K]
        seqlen_k = room if most is None else min(room, most)
    return batch, q.shape[-2], seqlen_q, seqlen_k


def is_tensor(x: Any) -> bool:
    """Returns whether an argument is a tensor, rather than a function or a text."""
    return isinstance(x, Table) or _hooks.torch_of(x) is not None or _hooks.is_array(x)


class TensorText(NamedTuple):
    """The text that reads a tensor, as an expression of C++."""

    name: str  #: of the capture
    element: str
    tensor: Any  #: a view of what was given, with the dimensions that the element has indices for
    is_mask: bool

    def beside(self, mask: tuple[str, str, int] | None) -> tuple[str, str, int]:
        """Returns the text with its file and line, and as a mask, of what another mask shows too."""
        if mask is None:
            return f"return {self.element};", "bias", 1
        body, file, line = mask
        # On one line, so that messages of compilers name the body's own lines.
        return f"return {self.element} && [&]() -> bool {{ {body}\n}}();", file, line


def read(given: Any, sizes: Sizes | None, device: Any = None) -> TensorText | None:
    """Returns the text that reads a tensor which broadcasts to `sizes`, without a copy. None: there are no scores.

    device: PyTorch's, where it must lie; None: anywhere.
    """
    tensor = given.array if isinstance(given, Table) else given
    if (wrong := _hooks.complaint(tensor)) is not None:
        raise _core.InvalidRequest(f"bias = {wrong}")
    _check_dtype(tensor)
    _check_shape(tuple(tensor.shape), sizes)
    if device is not None and _hooks.torch_of(tensor) is not None and tensor.device != device:
        raise _core.InvalidRequest(f"bias.device = {tensor.device}, must be {device}, as q's: move it there")
    if 0 in tensor.shape:
        return None
    first = len(_AXES) - tensor.ndim
    # A text that does not read the batch, head or query has less to compute, and its map of blocks fewer rows.
    kept = [axis for axis in range(tensor.ndim) if tensor.shape[axis] != 1]
    if len(kept) < tensor.ndim:
        tensor = tensor[(*(slice(None) if axis in kept else 0 for axis in range(tensor.ndim)), ...)]
    is_mask = str(tensor.dtype).removeprefix("torch.") == "bool"
    name = "mask_tensor" if is_mask else "bias_tensor"
    return TensorText(name, f"{name}({', '.join(_PLACES[first + axis] for axis in kept)})", tensor, is_mask)


def _check_dtype(tensor: Any) -> None:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype in _FLOATS or dtype == "bool":
        return
    do = "x.float()" if _hooks.torch_of(tensor) is not None else "x.astype('float32')"
    hidden = ", or compare it, as in x != 0, for a mask" if "float" not in dtype else ""
    raise _core.InvalidType(f"bias.dtype = {dtype}, must be {', '.join(_FLOATS)}, or bool for a mask: cast it, with {do}{hidden}")


def _check_shape(shape: tuple[int, ...], sizes: Sizes | None) -> None:
    known = sizes or (None,) * len(_AXES)
    fits = _FEWEST <= len(shape) <= len(_AXES)
    if fits:
        fits = all(n == 1 or size is None or n == size for n, size in zip(reversed(shape), reversed(known)))
    if not fits:
        expected = f" = {sizes}" if sizes is not None else ""
        raise _core.InvalidRequest(
            f"bias.shape = {shape}, must have {_FEWEST} to {len(_AXES)} dimensions that broadcast to ({', '.join(_AXES)}){expected}"
        )
