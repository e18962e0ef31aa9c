"""libfa2's C ABI (include/fa2/c_api.h) for PyTorch tensors, through ctypes."""
import ctypes as C
import importlib.util
import json
import pathlib

# The structs of the package, without the package, which needs its extension.
_path = pathlib.Path(__file__).parents[1] / "python/fa2/_c_structs.py"
_spec = importlib.util.spec_from_file_location("c_structs", _path)
_structs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_structs)
AppendArgs, AppendProblem, Args = _structs.AppendArgs, _structs.AppendProblem, _structs.Args
BackwardArgs, Problem, Tensor = _structs.BackwardArgs, _structs.Problem, _structs.Tensor

F16, BF16 = 0, 1
MASK_NONE, CAUSAL_BOTTOM_RIGHT, CAUSAL_TOP_LEFT = 0, 1, 2
DQ, DK, DV, D_CAPTURES, BITWISE = 1, 2, 4, 16, 256
DROPOUT_SEED = 1
MAP_VERSION = 1  # of held maps, whose captures never change


def dtype_of(tensor):
    import torch

    return BF16 if tensor.dtype == torch.bfloat16 else F16


def tensor_of(tensor):
    """Converts a (batch, heads, rows, dim) tensor."""
    return Tensor(tensor.data_ptr(), (C.c_int64 * 3)(*tensor.stride()[:3]))


class Options(C.Structure):
    _fields_ = [("struct_size", C.c_uint32)] + [(n, C.c_int32) for n in ("tune", "jit", "tune_budget_ms")]
    _fields_ += [(n, C.c_char_p) for n in ("cache_dir", "read_only_caches", "config")]


class ScoreText(C.Structure):
    _fields_ = [("text", C.c_char_p), ("file", C.c_char_p), ("line", C.c_int32), ("reserved", C.c_int32)]


CAPTURE_DTYPES = {"float16": 0, "bfloat16": 1, "float32": 2, "int32": 3, "int64": 4, "uint8": 5, "bool": 7}


PER_SCORE = -2  # dimensions


class CaptureSpec(C.Structure):
    _fields_ = [("name", C.c_char_p), ("dtype", C.c_int32), ("dimensions", C.c_int32)]


class ScoreTexts(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("reserved", C.c_int32)]
    _fields_ += [(name, C.POINTER(ScoreText)) for name in ("bias", "mod", "mod_slope", "mask")]
    _fields_ += [("captures", C.POINTER(CaptureSpec)), ("capture_count", C.c_size_t)]
    _fields_ += [("mask_block_queries", C.c_int32), ("mask_block_keys", C.c_int32)]


class Capture(C.Structure):
    _fields_ = [("data", C.c_void_p), ("number", C.c_double), ("sizes", C.c_int64 * 4), ("strides", C.c_int64 * 4)]

    @classmethod
    def of(cls, tensor):
        four = lambda values: (C.c_int64 * 4)(*values)  # noqa: E731
        return cls(tensor.data_ptr(), 0.0, four(tensor.shape), four(tensor.stride()))


class Library:
    """libfa2.so and one context. Tensors are (batch, heads, seqlen, dim) views with any strides."""

    TUNE = {"off": 1, "stored": 2, "learn": 3, "adaptive": 4, "now": 5}

    def __init__(self, path, tune="off", tune_budget_ms=0, cache_dir=None, config=None, bitwise=False):
        self.bitwise = bitwise
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

    def make_score_text(self, bias=None, mod=None, mod_slope=None, mask=None, captures=None, per_score=(), mask_block=(0, 0)):
        """Returns the number of texts: bodies of functions in CUDA C++. `captures`: name -> tensor. `per_score`: the names of those
        with an element per score. `mask_block`: queries and keys of the blocks in which the mask answers the same."""
        captures = captures or {}
        specs = (CaptureSpec * len(captures))(*(CaptureSpec(n.encode(), CAPTURE_DTYPES[str(t.dtype)[6:]], PER_SCORE if n in per_score else t.dim()) for n, t in captures.items()))
        texts = ScoreTexts(struct_size=C.sizeof(ScoreTexts), captures=specs, capture_count=len(captures))
        texts.mask_block_queries, texts.mask_block_keys = mask_block
        for name, text in (("bias", bias), ("mod", mod), ("mod_slope", mod_slope), ("mask", mask)):
            if text:
                setattr(texts, name, C.pointer(ScoreText(text.encode(), None, 1, 0)))
        number = C.c_int64()
        self.check(self.lib.fa2_make_score_text(C.byref(texts), C.byref(number)))
        return number.value

    def problem(self, q, k, v, causal, variant=None, packed=None):
        import torch

        p = Problem.new()
        p.dtype = dtype_of(q)
        p.mask = CAUSAL_BOTTOM_RIGHT if causal else MASK_NONE
        p.head_dim, p.head_dim_v = q.shape[3], v.shape[3]
        p.kv_type = k.dtype == torch.float8_e4m3fn
        p.values_in_keys = k.data_ptr() == v.data_ptr() and p.head_dim > 256
        p.batch, p.heads_q, p.heads_kv = q.shape[0], q.shape[1], k.shape[1]
        p.seqlen_q, p.seqlen_k = q.shape[2], k.shape[2]
        if variant is not None:
            p.has_window_left, p.window_left = variant.window_left is not None, variant.window_left or 0
            p.has_window_right, p.window_right = variant.window_right is not None, variant.window_right or 0
            p.softcap, p.alibi, p.sinks = variant.softcap != 0, variant.slopes is not None, variant.sinks is not None
            p.dropout = variant.dropout != 0
            p.score_text = variant.score_text
        if packed is not None:
            p.varlen, p.batch, p.total_q, p.total_k = 1, len(packed.lengths), q.shape[2], k.shape[2]
            p.seqlen_q = p.seqlen_k = max(packed.lengths)
        return p

    def args(self, q, k, v, o, lse=None, variant=None, packed=None):
        args = Args.new()
        args.q, args.k, args.v, args.out = (tensor_of(t) for t in (q, k, v, o))
        args.lse = lse.data_ptr() if lse is not None else None
        if variant is not None:
            args.softcap = variant.softcap
            args.alibi_slopes = variant.slopes.data_ptr() if variant.slopes is not None else None
            args.sinks = variant.sinks.data_ptr() if variant.sinks is not None else None
            variant.capture_list = (Capture * len(variant.captures))(*(Capture.of(t) for t in variant.captures))
            args.captures, args.capture_count = C.cast(variant.capture_list, C.c_void_p), len(variant.captures)
            args.dropout_probability, args.dropout_seed = variant.dropout, DROPOUT_SEED if variant.dropout else 0
        if packed is not None:
            args.cu_seqlens_q = args.cu_seqlens_k = packed.cu_seqlens.data_ptr()
        return args

    def dropout_mask(self, q, k, variant):
        """Returns uint8 (batch, heads_q, seqlen_q, seqlen_k): 1 if the variant's dropout keeps the probability."""
        import torch

        problem, args = self.problem(q, k, k, False, variant), self.args(q, k, k, q, variant=variant)
        mask = torch.empty(*q.shape[:3], k.shape[2], device=q.device, dtype=torch.uint8)
        stream = torch.cuda.current_stream().cuda_stream
        write = self.lib.fa2_dropout_mask
        self.check(write(self.context, C.byref(problem), C.byref(args), C.c_void_p(mask.data_ptr()), C.c_void_p(stream)))
        return mask

    def explained(self, explain, plan):
        raw = C.c_void_p()
        self.check(explain(plan, C.byref(raw)))
        explanation = json.loads(C.string_at(raw))
        self.lib.fa2_string_free(raw)
        return explanation

    def launcher(self, run, plan, args, keep):
        """Returns a function that launches on PyTorch's current stream. It keeps alive what the arguments point to."""
        import torch

        def launch(keep=keep):
            stream = torch.cuda.current_stream().cuda_stream
            self.check(run(plan, C.byref(args), C.c_void_p(stream)))

        return launch

    def append(self, q, k_new, v_new, k, v, seqlens, cos, sin, table=None):
        """Returns a function that appends k_new and v_new behind the first `seqlens` rows of the caches k and v, or of
        their pages if there is a table. It rotates K and q in place, by halves. Tensors are (batch, heads, rows, dim);
        `cos` and `sin` are float32 (positions, dim / 2)."""
        problem = AppendProblem.new()
        problem.dtype, problem.head_dim, problem.rotary_dim = dtype_of(q), q.shape[3], q.shape[3]
        problem.float32_tables, problem.table_rows = 1, cos.shape[0]
        problem.batch, problem.heads_q, problem.heads_kv = q.shape[0], q.shape[1], k.shape[1]
        problem.seqlen_q, problem.seqlen_new = q.shape[2], k_new.shape[2]
        problem.cache_entries, problem.cache_rows = k.shape[0], k.shape[2]
        args = AppendArgs.new()
        args.k_new, args.v_new, args.k_cache, args.v_cache = (tensor_of(t) for t in (k_new, v_new, k, v))
        args.q = args.q_out = tensor_of(q)
        args.seqlens, args.cos, args.sin, args.table_stride = seqlens.data_ptr(), cos.data_ptr(), sin.data_ptr(), cos.stride(0)
        if table is not None:
            problem.page_size, problem.max_pages = k.shape[2], table.shape[1]
            args.page_table, args.page_table_stride = table.data_ptr(), table.stride(0)
        run = lambda _, args, stream: self.lib.fa2_append(self.context, C.byref(problem), args, stream)  # noqa: E731
        return self.launcher(run, None, args, (q, k_new, v_new, k, v, seqlens, cos, sin, table))

    def hold_map(self, find, problem, args, forward):
        """Finds the blocks that the variant's mask shows, for calls of `args`. `forward`, the attention's part of them, gets the
        map, which lives as long as the process. `find`: fa2_map_blocks or fa2_map_blocks_of_backward. Returns a function that finds
        them again, into the same map."""
        import torch

        block_map = C.c_void_p()
        self.check(self.lib.fa2_block_map_create(C.c_uint64(MAP_VERSION), C.byref(block_map)))

        def make():
            stream = torch.cuda.current_stream().cuda_stream
            self.check(find(self.context, C.byref(problem), C.byref(args), block_map, C.c_void_p(stream)))

        make()
        forward.block_map, forward.block_map_version = block_map.value, MAP_VERSION
        return make

    def map_maker(self, q, k, v, o, variant):
        """Returns a function that maps the blocks that the variant's mask shows to a forward."""
        return self.hold_map(self.lib.fa2_map_blocks, self.problem(q, k, v, False, variant), self.args(q, k, v, o, variant=variant), Args.new())

    def plan(self, q, k, v, o, causal, lse=None, variant=None, packed=None, used=None, pages=None, holds_map=False):
        """Returns (run, explanation). `variant`: variants.Variants. `packed`: tensors are (1, heads, total, dim), and
        packed has `lengths` and `cu_seqlens`, an int32 tensor. `used`: an int32 tensor, the keys of each sequence.
        `pages`: (pages of K, pages of V, table), which are read instead of k and v; the shapes of these give the
        sequence lengths. `holds_map`: the map of a mask's blocks is made now, not in each launch. The plan has its own workspace."""
        import torch

        problem, plan, size = self.problem(q, k, v, causal, variant, packed), C.c_void_p(), C.c_size_t()
        if used is not None:
            problem.varlen = 1
        if pages is not None:
            k, v, table = pages
            problem.varlen, problem.page_count, problem.page_size = 1, k.shape[0], k.shape[2]
        self.check(self.lib.fa2_plan_create(self.context, C.byref(problem), -1, None, C.byref(plan)))
        self.check(self.lib.fa2_plan_workspace_bytes(plan, C.byref(size)))
        workspace = torch.zeros(size.value, device="cuda", dtype=torch.uint8)
        args = self.args(q, k, v, o, lse, variant, packed)
        args.workspace = workspace.data_ptr() or None
        args.seqused_k = used.data_ptr() if used is not None else None
        if pages is not None:
            args.page_table, args.page_table_stride = table.data_ptr(), table.stride(0)
        if holds_map:
            self.hold_map(self.lib.fa2_map_blocks, problem, args, args)
        run = self.launcher(self.lib.fa2_plan_run, plan, args, (q, k, v, o, lse, variant, packed, used, pages, workspace))
        return run, self.explained(self.lib.fa2_plan_explain, plan)

    def backward_plan(self, q, k, v, o, lse, d_out, gradients, causal, variant=None, packed=None, d_captures=(), holds_map=False):
        """Returns (run, explanation). `o` and `lse` are the forward's. `gradients`: dq, dk and dv, or None for each
        that is not wanted. `d_captures`: likewise, for each capture of the variant. `holds_map`: as of plan(). The plan has its
        own workspace."""
        import torch

        problem, plan, size = self.problem(q, k, v, causal, variant, packed), C.c_void_p(), C.c_size_t()
        which = BITWISE * self.bitwise + sum(flag for flag, gradient in zip((DQ, DK, DV), gradients) if gradient is not None)
        which += D_CAPTURES * (len(d_captures) > 0)
        self.check(self.lib.fa2_backward_plan_create(self.context, C.byref(problem), -1, which, None, C.byref(plan)))
        self.check(self.lib.fa2_backward_plan_workspace_bytes(plan, C.byref(size)))
        workspace = torch.empty(size.value, device="cuda", dtype=torch.uint8)
        forward = self.args(q, k, v, o, lse, variant, packed)
        args = BackwardArgs.new()
        args.forward = C.pointer(forward)
        args.d_out, args.dq, args.dk, args.dv = (tensor_of(t) if t is not None else Tensor() for t in (d_out, *gradients))
        args.workspace = workspace.data_ptr() or None
        addresses = (C.c_void_p * len(d_captures))(*(t.data_ptr() if t is not None else None for t in d_captures))
        if d_captures:
            args.d_captures = C.cast(addresses, C.c_void_p)
        if holds_map:
            self.hold_map(self.lib.fa2_map_blocks_of_backward, problem, args, forward)
        keep = (q, k, v, o, lse, d_out, gradients, variant, packed, workspace, forward, d_captures, addresses)
        run = self.launcher(self.lib.fa2_backward_plan_run, plan, args, keep)
        return run, self.explained(self.lib.fa2_backward_plan_explain, plan)
