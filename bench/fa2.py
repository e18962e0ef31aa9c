"""libfa2's C ABI (include/fa2/c_api.h) for PyTorch tensors, through ctypes."""
import ctypes as C
import json

F16, BF16 = 0, 1
MASK_NONE, CAUSAL_BOTTOM_RIGHT, CAUSAL_TOP_LEFT = 0, 1, 2


class Problem(C.Structure):
    _fields_ = [("struct_size", C.c_uint32)]
    _fields_ += [(n, C.c_int32) for n in ("dtype", "mask", "row_alignment", "head_dim", "head_dim_v")]
    _fields_ += [(n, C.c_int64) for n in ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k")]


class Args(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("empty_row_lse", C.c_int32), ("has_softmax_scale", C.c_int32)]
    _fields_ += [("softmax_scale", C.c_float)]
    _fields_ += [(n, C.c_void_p) for n in ("q", "k", "v", "o", "lse")]
    _fields_ += [(n, C.c_int64 * 3) for n in ("q_strides", "k_strides", "v_strides", "o_strides")]


class Options(C.Structure):
    _fields_ = [("struct_size", C.c_uint32)] + [(n, C.c_int32) for n in ("tune", "jit", "tune_budget_ms")]
    _fields_ += [(n, C.c_char_p) for n in ("cache_dir", "read_only_caches", "config")]


class Library:
    """libfa2.so and one context. Tensors are (batch, heads, seqlen, dim) views with any strides."""

    TUNE = {"off": 1, "stored": 2, "search": 3}

    def __init__(self, path, tune="off", tune_budget_ms=0, cache_dir=None, config=None):
        self.lib = C.CDLL(path)
        self.lib.fa2_last_error.restype = self.lib.fa2_version.restype = C.c_char_p
        self.version = self.lib.fa2_version().decode()
        options = Options(C.sizeof(Options), self.TUNE[tune], 0, tune_budget_ms)
        options.cache_dir = cache_dir.encode() if cache_dir else None
        options.config = config.encode() if config else None
        self.context = C.c_void_p()
        self.check(self.lib.fa2_context_create(C.byref(options), C.byref(self.context)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.fa2_last_error().decode())

    def problem(self, q, k, v, causal):
        import torch

        p = Problem(C.sizeof(Problem), BF16 if q.dtype == torch.bfloat16 else F16)
        p.mask = CAUSAL_BOTTOM_RIGHT if causal else MASK_NONE
        p.head_dim, p.head_dim_v = q.shape[3], v.shape[3]
        p.batch, p.heads_q, p.heads_kv = q.shape[0], q.shape[1], k.shape[1]
        p.seqlen_q, p.seqlen_k = q.shape[2], k.shape[2]
        return p

    def plan(self, q, k, v, o, causal, lse=None):
        """Returns (run, explanation): run() launches on PyTorch's current stream."""
        import torch

        problem, plan, text = self.problem(q, k, v, causal), C.c_void_p(), C.c_char_p()
        self.check(self.lib.fa2_plan_create(self.context, C.byref(problem), -1, C.byref(plan)))
        raw = C.c_void_p()
        self.check(self.lib.fa2_plan_explain(plan, C.byref(raw)))
        explanation = json.loads(C.string_at(raw))
        self.lib.fa2_string_free(raw)
        args = Args(C.sizeof(Args), 0, 0, 0.0, q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr())
        args.lse = lse.data_ptr() if lse is not None else None
        for name, t in (("q", q), ("k", k), ("v", v), ("o", o)):
            setattr(args, name + "_strides", (C.c_int64 * 3)(*t.stride()[:3]))

        def run(keep=(q, k, v, o, lse)):
            stream = torch.cuda.current_stream().cuda_stream
            self.check(self.lib.fa2_plan_run(plan, C.byref(args), C.c_void_p(stream)))

        return run, explanation
