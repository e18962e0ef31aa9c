"""fa2: attention kernels that are rendered, compiled, cached and tuned at run time.

    import fa2
    out = fa2.attention(q, k, v, causal=True)  # (batch, seqlen, heads, head_dim)

Tensors of PyTorch on a GPU; numpy arrays and CPU tensors run, slowly, on the interpreter. docs/python.md has more.
"""

from . import _log, _nvrtc
from ._attention import attention, explain, tune
from ._cache import append, merge
from ._core import (
    CacheError,
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
from ._machine import machine, precompile, precompile_requests
from ._padding import pad_head_dim

__all__ = [
    "CacheError",
    "CompileError",
    "CudaError",
    "Error",
    "InternalError",
    "InvalidRequest",
    "InvalidType",
    "KernelFault",
    "Unavailable",
    "__version__",
    "append",
    "attention",
    "explain",
    "machine",
    "merge",
    "pad_head_dim",
    "precompile",
    "precompile_requests",
    "tune",
]

_log.install()
_nvrtc.install()
