/* fa2's C interface: opaque handles, plain structs, an error code and a message. C99, no CUDA header needed.
 *
 * Every function that returns fa2_status returns FA2_OK or the reason; fa2_last_error() then has the
 * sentence. No C++ exception leaves a function. Pointers that the comments do not call optional must not be
 * NULL.
 *
 *   fa2_problem problem = FA2_PROBLEM_INIT;
 *   fa2_args args = FA2_ARGS_INIT;
 *   problem.head_dim = 128, problem.heads_q = 32, problem.heads_kv = 8;
 *   problem.seqlen_q = problem.seqlen_k = 4096;
 *   args.q = q, args.k = k, args.v = v, args.o = o;  and the four strides
 *   if (fa2_attention(NULL, &problem, &args, stream) != FA2_OK) puts(fa2_last_error());
 *
 * Structs start with their size as the caller's header knows it. A library with more fields takes the
 * missing ones as 0, their default; one with fewer refuses fields beyond its own unless they are 0. A size
 * beyond 4096 is refused: it was never set. */
#ifndef FA2_C_API_H
#define FA2_C_API_H

#include <stddef.h>
#include <stdint.h>

#if defined(FA2_STATIC)
#define FA2_C_API
#else
#define FA2_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- results ---- */

typedef int32_t fa2_status;
enum {
  FA2_OK = 0,
  FA2_INVALID_PROBLEM = 1, /* the request itself is wrong; nothing was launched or written */
  FA2_COMPILE = 2,         /* a kernel did not compile, or broke a resource rule */
  FA2_CACHE = 3,           /* a kernel cache could not be read or written where that was essential */
  FA2_CUDA = 4,            /* the CUDA driver returned an error */
  FA2_UNAVAILABLE = 5,     /* something needed is missing: libcuda, NVRTC, a GPU, a precompiled kernel */
  FA2_INTERNAL = 6,        /* a bug in fa2, or no host memory left */
  FA2_KERNEL_FAULT = 7     /* an interpreted kernel broke a rule of the machine */
};

/* The message of the calling thread's most recent failure, UTF-8; "" if there was none. Never NULL. Valid
 * until the next failure on this thread. */
FA2_C_API const char* fa2_last_error(void);

/* "0.1.0". Static. */
FA2_C_API const char* fa2_version(void);

/* Frees a string that a function of this header made. NULL is fine. */
FA2_C_API void fa2_string_free(char* text);

/* ---- what is computed ---- */

/* fa2_problem.dtype */
enum { FA2_F16 = 0, FA2_BF16 = 1 };

/* fa2_problem.mask. Query i sees key j
 *   FA2_MASK_NONE:            always
 *   FA2_CAUSAL_BOTTOM_RIGHT:  iff j <= i + seqlen_k - seqlen_q (FlashAttention's convention)
 *   FA2_CAUSAL_TOP_LEFT:      iff j <= i */
enum { FA2_MASK_NONE = 0, FA2_CAUSAL_BOTTOM_RIGHT = 1, FA2_CAUSAL_TOP_LEFT = 2 };

/* fa2_problem.row_alignment: what a plan assumes of every row of Q, K, V and O.
 *
 *   FA2_ROWS_16_BYTES: pointers and strides are multiples of 16 bytes, strides positive; the fast kernels
 *
 *   FA2_ROWS_ELEMENT: nothing beyond the alignment of one element; right for any view
 *
 *   FA2_ROWS_16_BYTES_ANY_ORDER: multiples of 16 bytes, strides of 0 and below included; on a Hopper GPU
 *     slower than the first, elsewhere the same */
enum { FA2_ROWS_16_BYTES = 0, FA2_ROWS_ELEMENT = 1, FA2_ROWS_16_BYTES_ANY_ORDER = 2 };

/* fa2_args.empty_row_lse: the LSE of a query that sees no key; its output is 0 in either case. */
enum { FA2_EMPTY_ROW_POSITIVE_INFINITY = 0, FA2_EMPTY_ROW_NEGATIVE_INFINITY = 1 };

/* O = softmax(scale * Q K^T + mask) V for every batch and query head (FlashAttention-2, arXiv 2307.08691,
 * section 2.1). Logical shapes: Q (batch, heads_q, seqlen_q, head_dim), K (batch, heads_kv, seqlen_k,
 * head_dim), V (batch, heads_kv, seqlen_k, head_dim_v), O (batch, heads_q, seqlen_q, head_dim_v). */
typedef struct fa2_problem {
  uint32_t struct_size;  /* sizeof(fa2_problem) */
  int32_t dtype;         /* FA2_F16, FA2_BF16: of Q, K, V and O */
  int32_t mask;          /* FA2_MASK_NONE, FA2_CAUSAL_BOTTOM_RIGHT, FA2_CAUSAL_TOP_LEFT */
  int32_t row_alignment; /* FA2_ROWS_... */
  int32_t head_dim;      /* of Q and K; a multiple of 8 in 8..256 */
  int32_t head_dim_v;    /* of V and O; a multiple of 8 in 8..256; 0: head_dim */
  int64_t batch;         /* >= 0 */
  int64_t heads_q;       /* >= 1; query head h reads key/value head h / (heads_q / heads_kv) */
  int64_t heads_kv;      /* divides heads_q; 0: heads_q */
  int64_t seqlen_q;      /* 0 .. 2^31 - 1024; also batch * heads_q * ceil(seqlen_q / 16) <= 2^31 - 1 */
  int64_t seqlen_k;      /* 0 .. 2^31 - 1024; without keys O = 0 */
} fa2_problem;

#define FA2_PROBLEM_INIT \
  { sizeof(fa2_problem), FA2_F16, FA2_MASK_NONE, FA2_ROWS_16_BYTES, 0, 0, 1, 1, 0, 0, 0 }

/* One call's data: device pointers (managed and pinned host memory work too) and strides. Strides are
 * distances in ELEMENTS between neighbouring batches, heads and rows, in this order; head_dim is contiguous.
 * Inputs may have any strides, 0 and negative ones included; O's rows must not overlap each other, and O and
 * LSE must not overlap anything else, except that O may be a slice of the packed buffer whose other slices
 * are inputs. */
typedef struct fa2_args {
  uint32_t struct_size;      /* sizeof(fa2_args) */
  int32_t empty_row_lse;     /* the LSE of a query that sees no key */
  int32_t has_softmax_scale; /* 0: the scale is 1 / sqrt(head_dim) */
  float softmax_scale;       /* any finite value; used if has_softmax_scale */
  const void* q;
  const void* k; /* may be NULL if seqlen_k is 0 */
  const void* v; /* may be NULL if seqlen_k is 0 */
  void* o;
  float* lse; /* optional: float32 (batch, heads_q, seqlen_q), contiguous; natural logarithms */
  int64_t q_strides[3];
  int64_t k_strides[3];
  int64_t v_strides[3];
  int64_t o_strides[3];
} fa2_args;

/* clang-format off */
#define FA2_ARGS_INIT {sizeof(fa2_args), 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}
/* clang-format on */

/* ---- contexts ---- */

/* Kernel caches, tuning records and the memo of plans. Thread-safe. Wherever one is expected, NULL means the
 * process's default context, which is made on first use from the environment (FA2_CACHE_DIR, FA2_TUNE, ...)
 * and lives as long as the process. */
typedef struct fa2_context fa2_context;

/* fa2_context_options.tune: heuristic only, stored records, or search once per bucket of problems. */
enum { FA2_TUNE_DEFAULT = 0, FA2_TUNE_OFF = 1, FA2_TUNE_STORED = 2, FA2_TUNE_SEARCH = 3 };

/* fa2_context_options.jit: compile what no cache holds, or run a cached kernel like it; FA2_UNAVAILABLE without one. */
enum { FA2_JIT_DEFAULT = 0, FA2_JIT_ON = 1, FA2_JIT_OFF = 2 };

/* What is left NULL or 0 comes from the environment variable named here, then from its default. */
typedef struct fa2_context_options {
  uint32_t struct_size;         /* sizeof(fa2_context_options) */
  int32_t tune;                 /* FA2_TUNE */
  int32_t jit;                  /* FA2_JIT */
  int32_t tune_budget_ms;       /* FA2_TUNE_BUDGET_MS; up to an hour */
  const char* cache_dir;        /* FA2_CACHE_DIR */
  const char* read_only_caches; /* FA2_CACHE_PATH: directories separated by ':' */
  const char* config;           /* FA2_CONFIG: "tile_m=128,tile_n=64,...", pins every kernel's config */
} fa2_context_options;

#define FA2_CONTEXT_OPTIONS_INIT \
  { sizeof(fa2_context_options), 0, 0, 0, 0, 0, 0 }

/* `options` is optional. On failure *context is NULL. */
FA2_C_API fa2_status fa2_context_create(const fa2_context_options* options, fa2_context** context);

/* NULL is fine. Wait for the work that the context enqueued first; no other thread may use it any more. Plans
 * made from it stay usable. */
FA2_C_API fa2_status fa2_context_destroy(fa2_context* context);

/* ---- attention ---- */

/* Enqueues the problem on `stream` (a CUstream or cudaStream_t; NULL: the legacy default stream) of the
 * current CUDA device. The first call for a problem may compile, load and search; later ones are a lookup and
 * a launch. While the stream captures, a problem without a plan is FA2_UNAVAILABLE. Rows that are not 16-byte
 * aligned run the kernel of FA2_ROWS_ELEMENT. Thread-safe. */
FA2_C_API fa2_status fa2_attention(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                                   void* stream);

/* A problem made ready on one device. Immutable: usable from any thread and while a stream captures. */
typedef struct fa2_plan fa2_plan;

/* `device`: a CUDA ordinal, or -1 for the current device. May compile, load and search. On failure *plan is
 * NULL. */
FA2_C_API fa2_status fa2_plan_create(fa2_context* context, const fa2_problem* problem, int32_t device,
                                     fa2_plan** plan);

/* Checks the arguments and launches: no lock, no allocation, no synchronisation. `args` must obey the plan's
 * row_alignment. */
FA2_C_API fa2_status fa2_plan_run(const fa2_plan* plan, const fa2_args* args, void* stream);

/* What runs, and why, as a JSON object; its "kernels" is an array with config and its origin, key, cache,
 * compile time and resources of each. *json is to be freed with fa2_string_free; NULL on failure. */
FA2_C_API fa2_status fa2_plan_explain(const fa2_plan* plan, char** json);

/* NULL is fine. Wait for the work that the plan enqueued first; no other thread may use the plan any more. */
FA2_C_API fa2_status fa2_plan_destroy(fa2_plan* plan);

/* ---- ahead of time ---- */

/* Compiles, for every arch ("sm_80", "sm_90a", ...), every kernel that the problems' dtypes, head dims, masks and
 * alignments can run with, whatever their batches, heads and lengths are, into the cache directory `out_dir`
 * (optional: the context's own). Needs NVRTC, no GPU and no driver. Uses every core. `problems` is an array
 * whose elements all have the first one's struct_size. *report (optional): a JSON array, one object per
 * kernel, to be freed with fa2_string_free; it is given also when some kernels failed, which is FA2_COMPILE
 * with the failures in fa2_last_error(). */
FA2_C_API fa2_status fa2_precompile(fa2_context* context, const fa2_problem* problems, size_t problem_count,
                                    const char* const* archs, size_t arch_count, const char* out_dir,
                                    char** report);

/* Searches configurations for one problem on `device` (-1: the current one) and stores the record. Takes
 * about the tuning budget; uses the GPU. *report (optional): a JSON object with every candidate, to be freed
 * with fa2_string_free. */
FA2_C_API fa2_status fa2_tune(fa2_context* context, const fa2_problem* problem, int32_t device,
                              char** report);

#ifdef __cplusplus
}
#endif

#endif
