"""fa2: attention kernels that are rendered, compiled, cached and tuned at run time.

    import fa2
    out = fa2.attention(q, k, v, causal=True)  # (batch, seqlen, heads, head_dim)

Tensors of PyTorch on a GPU; numpy arrays and CPU tensors run, slowly, on the interpreter. docs/python.md has more.
"""

from . import _log, _nvrtc
from ._attention import attention, explain, tune
from ._block_mask import BlockMask, and_masks, create_block_mask, noop_mask, or_masks
from ._cache import append, merge
from ._core import (
    CacheError,
    CommunicationError,
    CompileError,
    CudaError,
    Error,
    InternalError,
    InvalidRequest,
    InvalidType,
    KernelFault,
    Unavailable,
)
from ._core import version as __version__
from ._flex import AuxOutput, AuxRequest, flex_attention
from ._machine import machine, precompile, precompile_requests
from ._padding import pad_head_dim
from ._score_trace import Table
from ._scores import ScoreText, check_score_text, score_text

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "CacheError",
    "CommunicationError",
    "CompileError",
    "CudaError",
    "Error",
    "InternalError",
    "InvalidRequest",
    "InvalidType",
    "KernelFault",
    "ScoreText",
    "Table",
    "Unavailable",
    "__version__",
    "and_masks",
    "append",
    "attention",
    "check_score_text",
    "create_block_mask",
    "explain",
    "flex_attention",
    "machine",
    "merge",
    "noop_mask",
    "or_masks",
    "pad_head_dim",
    "precompile",
    "precompile_requests",
    "score_text",
    "tune",
]

_log.install()
_nvrtc.install()
