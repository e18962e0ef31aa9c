/* fa2's C interface: opaque handles, plain structs, an error code and a message. C99, no CUDA header needed.
 *
 * Every function that returns fa2_status returns FA2_OK or the reason; fa2_last_error() then has the
 * sentence. No C++ exception leaves a function. Pointers that the comments do not call optional must not be
 * NULL.
 *   fa2_problem problem = FA2_PROBLEM_INIT;
 *   fa2_args args = FA2_ARGS_INIT;
 *   problem.head_dim = 128, problem.heads_q = 32, problem.heads_kv = 8;
 *   problem.seqlen_q = problem.seqlen_k = 4096;
 *   args.q.data = q, args.k.data = k, args.v.data = v, args.o.data = o;  and the strides of the four
 *   if (fa2_attention(NULL, &problem, &args, stream) != FA2_OK) puts(fa2_last_error());
 *
 * Structs start with their size as the caller's header knows it. A library with more fields takes the
 * missing ones as 0, their default; one with fewer refuses fields beyond its own unless they are 0. A size
 * that no version has is refused: it was never set, or would end inside a field. */
#ifndef FA2_C_API_H
#define FA2_C_API_H

#include <fa2/version.h>
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
  FA2_INVALID_REQUEST = 1, /* the request itself is wrong; nothing was launched or written */
  FA2_COMPILE = 2,         /* a kernel did not compile, or broke a resource rule */
  FA2_CACHE = 3,           /* a kernel cache could not be read or written where that was essential */
  FA2_CUDA = 4,            /* the CUDA driver returned an error */
  FA2_UNAVAILABLE = 5,     /* something needed is missing: libcuda, NVRTC, a GPU, a precompiled kernel */
  FA2_INTERNAL = 6,        /* a bug in fa2, or no host memory left */
  FA2_KERNEL_FAULT = 7,    /* an interpreted kernel broke a rule of the machine */
  FA2_INTERRUPTED = 8 /* fa2_set_interrupt's function or a signal ended the work; outputs may hold anything */
};

/* The message of the calling thread's most recent failure, UTF-8; "" if there was none. Never NULL. Valid
 * until the next failure on this thread. */
FA2_C_API const char* fa2_last_error(void);

/* Returns the library's version, "0.1.0". Static. fa2/version.h has the headers'. */
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

/* row_alignment of options: what a plan may count on of every row of Q, K, V and O, in every call.
 *   FA2_ROWS_16_BYTES: pointers and strides are multiples of 16 bytes, strides positive; the fast kernels
 *   FA2_ROWS_ELEMENT: nothing beyond the alignment of one element; right for any view
 *   FA2_ROWS_16_BYTES_ANY_ORDER: multiples of 16 bytes, strides of 0 and below included; on a Hopper GPU
 *     slower than the first, elsewhere the same */
enum { FA2_ROWS_16_BYTES = 0, FA2_ROWS_ELEMENT = 1, FA2_ROWS_16_BYTES_ANY_ORDER = 2 };

/* fa2_args.empty_row_lse: the LSE of a query that sees no key; its output is 0 in either case. */
enum { FA2_EMPTY_ROW_POSITIVE_INFINITY = 0, FA2_EMPTY_ROW_NEGATIVE_INFINITY = 1 };

/* fa2_problem: O = softmax(S) V for every batch and query head (FlashAttention-2, arXiv 2307.08691, section 2.1). S = scale *
 * Q K^T, then capped, then biased, and -inf where the mask or a window hides a key. Variants combine freely.
 *   window_left, window_right: query i sees key j only if c - window_left <= j <= c + window_right, where
 *     c = i + seqlen_k - seqlen_q, or i under FA2_CAUSAL_TOP_LEFT. A side whose has_ field is 0 has no bound.
 *   alibi: slope * |i + seqlen_k - seqlen_q - j| is subtracted from scores, under every mask.
 *   varlen: seqlen_q and seqlen_k are the longest that a sequence may be; a longer one is cut. Masks, windows and biases are each
 *     sequence's. With total_q, Q and O are (total_q, heads_q, dim) and LSE is (heads_q, total_q); with total_k, K and V are
 *     (total_k, heads_kv, dim). Without, sequences begin where their batch entry does.
 *   page_size: K and V are (page_count, page_size, heads_kv, dim). Needs varlen, and no total_k; has no gradients.
 *
 * fa2_args: inputs are only read; they may have any strides, 0 and negative ones included. Rows of O must not overlap each other,
 * and O and LSE must not overlap anything else, except that O may be a slice of the packed buffer whose other slices are inputs.
 *   k, v: data may be NULL if seqlen_k is 0.
 *   cu_seqlens_q, cu_seqlens_k: sequence b is the rows [cu_seqlens[b], cu_seqlens[b + 1]). Entries must not descend, and must lie
 *     in [0, total]; a sequence has at most seqlen_q (seqlen_k) rows. Kernels cut what is too much. With FA2_CHECK=1, and on the
 *     interpreter, it is FA2_INVALID_REQUEST.
 *   page_table: key j of sequence b is row j % page_size of page page_table[b * page_table_stride + j / page_size]. Entries beyond a
 *     sequence's length are not read. Kernels take an entry outside [0, page_count) for the nearest inside; it is checked as above.
 *   workspace: fa2_plan_workspace_bytes() bytes at a multiple of 256, which overlap nothing else. Fill them with zeros once, and do
 *     not write to them afterwards: each launch restores the zeros that it needs. Launches of one stream may share them. NULL: the
 *     context provides what is needed. Ignored if nothing is. */
#include <fa2/c_call.h>

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
  const char* config;           /* FA2_CONFIG: "tile_m=128,tile_n=64,...", pins the kernels of its pass */
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
 * a launch. While the stream captures, a problem without a plan is FA2_UNAVAILABLE. The plan's row_alignment is what
 * holds of the arguments: rows that are not 16-byte aligned run the kernel of FA2_ROWS_ELEMENT. Thread-safe. */
FA2_C_API fa2_status fa2_attention(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                                   void* stream);

/* A problem made ready on one device. Immutable: usable from any thread and while a stream captures.
 *
 * A captured graph owns nothing of what its launches use, which is fixed when they are captured. Launch it only as long
 * as the plan or the context that made it is there (with the last of them the kernel is unloaded, and what the context
 * lent is freed), and the memory that the arguments point to, the workspace included. Destroy it at any time before the
 * library is unloaded. Two executable graphs made of one capture use the same memory: do not let them run at the same
 * time.
 *
 * A captured launch without a workspace holds one counter slot of its context, of 2^18 per device or of 2^12 for split KV,
 * until the graph, its clones and its executables are destroyed and have finished. FA2_UNAVAILABLE if all slots are
 * held. */
typedef struct fa2_plan fa2_plan;

/* Devices beside CUDA ordinals: the current one; the interpreter, whose memory is host memory
 * (docs/interpreter.md). */
enum { FA2_CURRENT_DEVICE = -1, FA2_INTERPRETER_DEVICE = -2 };

/* What every call of the plan keeps. */
typedef struct fa2_plan_options {
  uint32_t struct_size;  /* sizeof(fa2_plan_options) */
  int32_t row_alignment; /* FA2_ROWS_... */
} fa2_plan_options;

#define FA2_PLAN_OPTIONS_INIT \
  { sizeof(fa2_plan_options), FA2_ROWS_16_BYTES }

/* `device`: a CUDA ordinal, FA2_CURRENT_DEVICE or FA2_INTERPRETER_DEVICE. `options` is optional. May compile, load and
 * search. On failure *plan is NULL. */
FA2_C_API fa2_status fa2_plan_create(fa2_context* context, const fa2_problem* problem, int32_t device,
                                     const fa2_plan_options* options, fa2_plan** plan);

/* Checks the arguments and launches: no synchronisation; no lock and no allocation, except for launches that are given
 * no workspace, but need one, and are captured or split keys. `args` must obey the plan's row_alignment. */
FA2_C_API fa2_status fa2_plan_run(const fa2_plan* plan, const fa2_args* args, void* stream);

/* How many bytes fa2_args.workspace has, if it is given: a multiple of 256; 0 if no launch needs any. */
FA2_C_API fa2_status fa2_plan_workspace_bytes(const fa2_plan* plan, size_t* bytes);

/* How many of them, the first ones, have to be zeros; the others may hold anything. A workspace of a captured launch of
 * its own is cheap that way. */
FA2_C_API fa2_status fa2_plan_workspace_zeros(const fa2_plan* plan, size_t* bytes);

/* What runs, and why, as a JSON object; its "kernels" is an array with config and its origin, key, cache,
 * compile time and resources of each. *json is to be freed with fa2_string_free; NULL on failure. */
FA2_C_API fa2_status fa2_plan_explain(const fa2_plan* plan, char** json);

/* NULL is fine. Wait for the work that the plan enqueued first; no other thread may use the plan any more. */
FA2_C_API fa2_status fa2_plan_destroy(fa2_plan* plan);

/* ---- ahead of time ---- */

/* fa2_precompile_options.scope: every kernel that problems with the same dtypes, head dims, masks and variants
 * can run with, whatever their sizes are; the one that each problem itself runs with. */
enum { FA2_PRECOMPILE_ANY_SIZE = 0, FA2_PRECOMPILE_GIVEN_SIZES = 1 };

/* Told of each kernel as it is done: from any thread, one call at a time. It may not call fa2. */
typedef void (*fa2_progress)(void* data, size_t done, size_t total);

typedef struct fa2_precompile_options {
  uint32_t struct_size;  /* sizeof(fa2_precompile_options) */
  int32_t scope;         /* FA2_PRECOMPILE_... */
  int32_t jobs;          /* compiling threads; 0: one per core */
  int32_t row_alignment; /* FA2_ROWS_...: of the plans that the kernels are for */
  const char* out;       /* the cache directory to fill; NULL: the context's own */
  int32_t backward;      /* 1: also their backward, whichever gradients are wanted */
  int32_t reserved;      /* 0 */
  int32_t append;        /* 1: also the kernel of fa2_append() to caches of their K and V */
  int32_t merge;         /* 1: also that of fa2_merge() of parts of their O */
  fa2_progress progress; /* optional */
  void* progress_data;   /* what it is called with */
} fa2_precompile_options;

#define FA2_PRECOMPILE_OPTIONS_INIT \
  { sizeof(fa2_precompile_options), FA2_PRECOMPILE_ANY_SIZE, 0, FA2_ROWS_16_BYTES, 0, 0, 0, 0, 0, 0, 0 }

/* Compiles, for every arch ("sm_80", "sm_90a", ...), the kernels that the problems run with, as `options`
 * (optional) say. Needs NVRTC, no GPU and no driver. `problems` is an array whose elements all have the first
 * one's struct_size; of windows any width will do. *report (optional): a JSON array, one object per kernel, to be
 * freed with fa2_string_free; it is given also when some kernels failed, which is FA2_COMPILE with the failures in
 * fa2_last_error(). */
FA2_C_API fa2_status fa2_precompile(fa2_context* context, const fa2_problem* problems, size_t problem_count,
                                    const char* const* archs, size_t arch_count,
                                    const fa2_precompile_options* options, char** report);

/* fa2_tune_options.scope: the configurations most like the heuristic's; every valid one, which takes a budget of
 * minutes. */
enum { FA2_TUNE_LIKELY = 0, FA2_TUNE_ALL = 1 };

typedef struct fa2_tune_options {
  uint32_t struct_size;  /* sizeof(fa2_tune_options) */
  int32_t scope;         /* FA2_TUNE_LIKELY, FA2_TUNE_ALL */
  int32_t row_alignment; /* FA2_ROWS_...: of the plans that the record is for */
  int32_t backward;      /* 1: the kernels of the backward, all gradients wanted, in place of the forward's */
} fa2_tune_options;

#define FA2_TUNE_OPTIONS_INIT \
  { sizeof(fa2_tune_options), FA2_TUNE_LIKELY, FA2_ROWS_16_BYTES, 0 }

/* Searches configurations for one problem on `device` (FA2_CURRENT_DEVICE: the current one) and stores the
 * record. `options` is optional. Takes about the tuning budget; uses the GPU. *report (optional): a JSON object
 * with every candidate, to be freed with fa2_string_free. Of a backward a JSON array of them, one a kernel that has more
 * than one configuration; each has a record and takes the budget. */
FA2_C_API fa2_status fa2_tune(fa2_context* context, const fa2_problem* problem, int32_t device,
                              const fa2_tune_options* options, char** report);

#ifdef __cplusplus
}
#endif

#endif
