"""The command's options for a problem, which have the C++ command's names, and the tensors of the problem."""

from __future__ import annotations

import argparse
import re
from typing import Any

from . import _core
from ._call import FLAGS, HEAD_NUMBERS, KV_TYPES, LSE_BASES

DTYPES = {"f16": "float16", "bf16": "bfloat16", "float16": "float16", "bfloat16": "bfloat16"}
_MASKS: dict[str, bool | str] = {"none": False, "causal_bottom_right": True, "causal_top_left": "top_left"}


def dtype_of(text: str) -> str:
    """Returns the dtype's full name."""
    if text not in DTYPES:
        raise argparse.ArgumentTypeError(f"dtype = {text}, must be f16 or bf16")
    return DTYPES[text]


def device_of(text: str) -> str:
    if not re.fullmatch(r"auto|interpreter|cuda:\d+", text):
        raise argparse.ArgumentTypeError(f"device = {text}, must be auto, interpreter or cuda:N")
    return text


def add_kv_type(verb: argparse.ArgumentParser) -> None:
    meaning = "element type of k and v: that of q, float8_e4m3fn, or the rows of DeepSeek-V3.2"
    verb.add_argument("--kv-type", choices=tuple(KV_TYPES), default="same", help=meaning)


def add_lse_base(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--lse-base", choices=tuple(LSE_BASES), default="natural", help="the base of the logarithm in LSE")


def add_to(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--dtype", type=dtype_of, default="f16", metavar="f16|bf16", help="element type")
    numbers = {
        "head-dim": (128, "columns of q and k, a multiple of 8 in 8..576"),
        "head-dim-v": (0, "columns of v, a multiple of 8 in 8..512; 0: as many"),
        "batch": (1, "sequences"),
        "heads": (16, "query heads"),
        "heads-kv": (0, "heads of keys and values, dividing --heads; 0: as many"),
        "seqlen": (4096, "queries and keys"),
        "seqlen-q": (None, "queries, if not --seqlen"),
        "seqlen-k": (None, "keys, if not --seqlen"),
        "window-left": (None, "keys before its own that a query sees"),
        "window-right": (None, "keys after its own that a query sees"),
        "attention-chunk": (0, "keys in a chunk, of which a query sees its own; 0: no chunks"),
        "sm-margin": (0, "SMs that persistent kernels leave to other kernels"),
        "page-size": (0, "with --varlen: rows of a page of k and v; 0: no pages"),
    }
    for name, (default, meaning) in numbers.items():
        verb.add_argument(f"--{name}", type=int, default=default, metavar="N", help=meaning)
    add_kv_type(verb)
    add_lse_base(verb)
    masks = verb.add_mutually_exclusive_group()
    masks.add_argument("--causal", action="store_true", help="causal mask, bottom-right aligned")
    masks.add_argument("--mask", choices=tuple(_MASKS), default="none", help="any mask by name")
    for name, meaning in {**FLAGS, "backward": "the kernels of the gradients instead"}.items():
        verb.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=meaning)
    devices = "cuda:N, interpreter, or auto: a GPU, else the interpreter"
    verb.add_argument("--device", type=device_of, default="auto", metavar="DEVICE", help=devices)


class _Arrays:
    """Makes zeros with PyTorch, or with numpy if PyTorch is not installed."""

    def __init__(self, device: str) -> None:
        try:
            import torch
        except ImportError:
            import numpy

            if device not in ("auto", "interpreter"):
                raise _core.Unavailable(f"--device = {device}, must be auto or interpreter without PyTorch") from None
            self._zeros: Any = lambda shape, dtype: numpy.zeros(shape, self._numpy_dtype(dtype))
            return
        place = {"auto": "cuda" if torch.cuda.is_available() else "cpu", "interpreter": "cpu"}.get(device, device)
        count = torch.cuda.device_count()
        if device.startswith("cuda:") and int(device[5:]) >= count:
            raise _core.Unavailable(f"--device = {device}, must be one of PyTorch's GPUs: it sees {count}")
        self._zeros = lambda shape, dtype: torch.zeros(shape, dtype=getattr(torch, dtype), device=place)

    @staticmethod
    def _numpy_dtype(name: str) -> Any:
        if name not in ("bfloat16", "float8_e4m3fn"):
            return name
        try:
            import ml_dtypes
        except ImportError as error:
            wrong = "--dtype = bf16, must be f16" if name == "bfloat16" else "--kv-type = e4m3, must be same"
            raise _core.Unavailable(f"{wrong} without PyTorch and ml_dtypes") from error
        return getattr(ml_dtypes, name)

    def zeros(self, shape: tuple[int, ...], dtype: str = "float32") -> Any:
        return self._zeros(shape, dtype)

    def lengths(self, batch: int, length: int) -> Any:
        return self.zeros((batch,), "int32") + length


def operands(args: argparse.Namespace) -> tuple[tuple[Any, Any, Any], dict[str, Any]]:
    """Returns q, k and v, and attention()'s other arguments. Values are zeros: only shapes matter."""
    arrays = _Arrays(args.device)
    seqlen_q, seqlen_k = (args.seqlen if x is None else x for x in (args.seqlen_q, args.seqlen_k))
    heads_kv, rows_k = args.heads_kv or args.heads, (args.batch, seqlen_k)
    left, right = (-1 if x is None else x for x in (args.window_left, args.window_right))
    options: dict[str, Any] = dict(causal=True if args.causal else _MASKS[args.mask], window_size=(left, right))
    options.update(attention_chunk=args.attention_chunk)
    options.update(softcap=float(args.softcap), dropout_p=0.1 * args.dropout, batch_invariant=args.batch_invariant)
    options.update(lse_base=args.lse_base, sm_margin=args.sm_margin)
    if args.max_logits:
        options["max_logits"] = arrays.zeros((args.batch, args.heads))
    options.update({name: arrays.zeros((args.heads,)) for flag, name in HEAD_NUMBERS.items() if getattr(args, flag)})
    if args.varlen:
        options["seqused_q"] = arrays.lengths(args.batch, seqlen_q)
        options["seqused_k"] = arrays.lengths(args.batch, seqlen_k)
    if args.page_size > 0:
        pages = -(-seqlen_k // args.page_size)
        options["page_table"], rows_k = arrays.zeros((args.batch, pages), "int32"), (args.batch * pages, args.page_size)
    kv_dtype = args.dtype if args.kv_type == "same" else "float8_e4m3fn"
    q = arrays.zeros((args.batch, seqlen_q, args.heads, args.head_dim), args.dtype)
    k = arrays.zeros((*rows_k, heads_kv, 656 if args.kv_type == "ds_mla" else args.head_dim), kv_dtype)
    head_dim_v = args.head_dim_v or args.head_dim
    if args.values_in_keys and head_dim_v > args.head_dim:
        raise _core.InvalidRequest(f"--head-dim-v = {head_dim_v}, must be at most --head-dim = {args.head_dim} with --values-in-keys")
    v = k[..., :head_dim_v] if args.values_in_keys else arrays.zeros((*rows_k, heads_kv, head_dim_v), kv_dtype)
    return (q, k, v), options
