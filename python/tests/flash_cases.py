"""Problems for flash_attn's interface: a few for the interpreter; for a GPU any number, sampled in strata."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    layout: str = "dense"  # dense, kvpacked, qkvpacked
    varlen: bool = False
    dtype: str = "float16"
    batch: int = 2
    seqlen_q: int = 33
    seqlen_k: int = 48
    heads: int = 2
    heads_kv: int = 2
    head_dim: int = 64
    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    alibi: bool = False
    dropout_p: float = 0.0
    deterministic: bool = False
    seed: int = 0

    def __str__(self) -> str:
        flags = ("varlen", "causal", "alibi", "deterministic")
        words = [self.layout, *(x for x in flags if getattr(self, x)), self.dtype]
        words += [f"{self.batch}x{self.seqlen_q}x{self.seqlen_k}x{self.heads}x{self.heads_kv}x{self.head_dim}"]
        words += [f"window{self.window[0]}_{self.window[1]}"] if self.window != (-1, -1) else []
        words += ["softcap"] if self.softcap else []
        words += ["dropout"] if self.dropout_p else []
        return "-".join(words)


FEW = (
    Case("qkvpacked", dtype="bfloat16", seqlen_q=40, seqlen_k=40, causal=True, dropout_p=0.17),
    Case("kvpacked", varlen=True, heads=4, alibi=True, causal=True, dropout_p=0.17),
    Case(head_dim=59, heads=4, window=(9, 4), deterministic=True),
    Case(varlen=True, dtype="bfloat16", seqlen_q=48, seqlen_k=33, heads=2, heads_kv=1, softcap=30.0, causal=True),
    Case("qkvpacked", varlen=True, seqlen_q=32, seqlen_k=32, head_dim=40),
    Case("kvpacked", seqlen_q=1, heads=4, heads_kv=1, head_dim=111, dtype="bfloat16"),
)

_STRATA = tuple(
    itertools.product(
        ("dense", "kvpacked", "qkvpacked"),
        (False, True),  # varlen
        ("full", "causal", "local", "causal local"),
        ("plain", "alibi", "softcap", "dropout", "alibi dropout"),
        ("float16", "bfloat16"),
    )
)
_LENGTHS = ((113, 203), (128, 217), (113, 211), (108, 256), (256, 512), (512, 256), (1024, 1024), (1023, 1024))
_MORE_LENGTHS = ((1024, 1023), (2048, 2048), (1, 128), (1, 339), (3, 799), (64, 64), (97, 97), (384, 384), (203, 113))
_HEAD_DIMS = (32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256)


def draw(number: int, seed: int) -> Case:
    """Returns case `number` of a seed. The strata take turns in an order that the seed shuffles; the rest is random."""
    order = list(_STRATA)
    random.Random(seed).shuffle(order)
    layout, varlen, mask, variant, dtype = order[number % len(order)]
    pick = random.Random(f"{seed} {number}")
    seqlen_q, seqlen_k = pick.choice(_LENGTHS + _MORE_LENGTHS)
    if layout == "qkvpacked":
        seqlen_q = seqlen_k
    heads = 6
    return Case(
        layout=layout,
        varlen=varlen,
        dtype=dtype,
        batch=4 if seqlen_k < 2000 else 2,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_k,
        heads=heads,
        heads_kv=heads if layout == "qkvpacked" else pick.choice((6, 2, 1)),
        head_dim=pick.choice(_HEAD_DIMS),
        causal="causal" in mask,
        # If each row sees only one key, dq and dk cancel to rounding errors, in flash_attn too. So windows have 8 keys
        # or more.
        window=(pick.randrange(8, seqlen_k), pick.randrange(8, seqlen_k)) if "local" in mask else (-1, -1),
        softcap=50.0 if variant == "softcap" else 0.0,
        alibi="alibi" in variant,
        dropout_p=0.17 if "dropout" in variant else 0.0,
        deterministic=pick.random() < 0.5,
        seed=number,
    )
