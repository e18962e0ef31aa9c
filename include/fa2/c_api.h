/* fa2's C interface: opaque handles, plain structs, an error code and a message. Needs C99, and no CUDA header.
 *
 * Every function that returns fa2_status returns FA2_OK or the kind of failure; fa2_last_error() then returns the message. No C++
 * exception leaves a function. Pointers that the comments do not call optional must not be NULL.
 *   fa2_problem problem = FA2_PROBLEM_INIT;
 *   fa2_args args = FA2_ARGS_INIT;
 *   problem.head_dim = 128, problem.heads_q = 32, problem.heads_kv = 8;
 *   problem.seqlen_q = problem.seqlen_k = 4096;
 *   args.q.data = q, args.k.data = k, args.v.data = v, args.out.data = out;  and the strides of the four
 *   if (fa2_attention(NULL, &problem, &args, stream) != FA2_OK) puts(fa2_last_error());
 *
 * Structs start with their size as the caller's header knows it. If the library has more fields, it takes the missing ones as 0,
 * their default. If it has fewer, it rejects fields beyond its own unless they are 0. It rejects a size that no version has: the
 * size was never set, or would end inside a field. */
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
  FA2_CACHE = 3,           /* a kernel cache that the call depends on could not be read or written */
  FA2_CUDA = 4,            /* the CUDA driver returned an error */
  FA2_UNAVAILABLE = 5,     /* something needed is missing: libcuda, NVRTC, a GPU, a precompiled kernel */
  FA2_INTERNAL = 6,        /* a bug in fa2, or no host memory left */
  FA2_KERNEL_FAULT = 7,    /* an interpreted kernel violated a PTX rule */
  FA2_INTERRUPTED =
      8, /* fa2_set_interrupt's function or a signal ended the work; outputs may hold anything */
  FA2_COMMUNICATION = 9 /* ranks could not exchange data; outputs may hold anything */
};

/* Returns the message of the calling thread's most recent failure, UTF-8; "" if there was none. Never NULL. Valid until the next
 * failure on this thread. */
FA2_C_API const char* fa2_last_error(void);

/* Returns the library's version, "0.1.0". Static. fa2/version.h has the headers'. */
FA2_C_API const char* fa2_version(void);

/* Frees a string that a function of fa2 made. NULL is fine. */
FA2_C_API void fa2_string_free(char* text);

/* ---- what is computed ---- */

/* fa2_problem.kv_type and fa2_append_problem.kv_type: the element type of K and V, of attention or in the cache
 *   FA2_KV_SAME: dtype
 *   FA2_KV_E4M3: 8 bits, FA2_FLOAT8_E4M3FN
 *   FA2_KV_SCALED: dtype, with the factors of FA2_KV_E4M3; of attention alone
 *   FA2_KV_DS_MLA: DeepSeek-V3.2's rows of 656 bytes: 512 columns of e4m3, 4 float32 factors, 64 columns of bfloat16; of
 *     attention alone */
enum { FA2_KV_SAME = 0, FA2_KV_E4M3 = 1, FA2_KV_SCALED = 2, FA2_KV_DS_MLA = 3 };

/* fa2_problem.mask. Query i sees key j
 *   FA2_MASK_NONE:            always
 *   FA2_CAUSAL_BOTTOM_RIGHT:  iff j <= i + seqlen_k - seqlen_q (FlashAttention's convention)
 *   FA2_CAUSAL_TOP_LEFT:      iff j <= i */
enum { FA2_MASK_NONE = 0, FA2_CAUSAL_BOTTOM_RIGHT = 1, FA2_CAUSAL_TOP_LEFT = 2 };

/* row_alignment of options: the alignment that a plan may assume for every row of Q, K, V and O.
 *   FA2_ROWS_16_BYTES: pointers and strides are multiples of 16 bytes, and strides are positive. This selects the fast kernels.
 *   FA2_ROWS_ELEMENT: pointers and strides are multiples of one element. This fits every view.
 *   FA2_ROWS_16_BYTES_ANY_ORDER: pointers and strides are multiples of 16 bytes; strides may be 0 or negative. This is slower than
 *     the first on Hopper, and the same elsewhere. */
enum { FA2_ROWS_16_BYTES = 0, FA2_ROWS_ELEMENT = 1, FA2_ROWS_16_BYTES_ANY_ORDER = 2 };

/* fa2_args.empty_row_lse: the LSE of a query that sees no key; its output is 0 in either case. */
enum { FA2_EMPTY_ROW_POSITIVE_INFINITY = 0, FA2_EMPTY_ROW_NEGATIVE_INFINITY = 1 };

/* fa2_problem.lse_base and fa2_merge_problem.lse_base: the logarithm of every LSE
 *   FA2_LSE_NATURAL: log(sum of exp(S)), FlashAttention's convention
 *   FA2_LSE_BASE_TWO: log2(sum of exp(S)), FlashInfer's convention */
enum { FA2_LSE_NATURAL = 0, FA2_LSE_BASE_TWO = 1 };

/* fa2_problem: O = softmax(S) V for every batch and query head (FlashAttention-2, arXiv 2307.08691, section 2.1). S = scale *
 * Q K^T, then capped, then biased, and -inf where the mask, a window or a chunk hides a key. Variants combine freely.
 *   window_left, window_right: query i sees key j only if c - window_left <= j <= c + window_right, where
 *     c = i + seqlen_k - seqlen_q, or i under FA2_CAUSAL_TOP_LEFT. A side whose has_ field is 0 has no bound.
 *   attention_chunk: query i sees key j only if j / attention_chunk == c / attention_chunk, rounded down, with the c of windows.
 *   alibi: slope * |i + seqlen_k - seqlen_q - j| is subtracted from scores, under every mask.
 *   varlen: seqlen_q and seqlen_k are upper bounds; kernels cut a longer sequence. Each sequence's own lengths align its mask,
 *     window, chunks and bias. With total_q, Q and O are (total_q, heads_q, dim) and LSE is (heads_q, total_q); with total_k, K
 *     and V are (total_k, heads_kv, dim). Without, sequences begin where their batch entry does.
 *   page_size: K and V are (page_count, page_size, heads_kv, dim). Needs varlen, and no total_k; has no gradients.
 *
 * fa2_args: inputs are only read; they may have any strides, even 0 or negative ones. Rows of O must not overlap each other,
 * and O and LSE must not overlap anything else, except that O may be a slice of the packed buffer whose other slices are inputs.
 *   k, v: data may be NULL if seqlen_k is 0.
 *   cu_seqlens_q, cu_seqlens_k: sequence b is the rows [cu_seqlens[b], cu_seqlens[b + 1]). Entries must not descend, and must lie
 *     in [0, total]; a sequence must have at most seqlen_q (seqlen_k) rows. Kernels cut what exceeds these bounds. With
 *     FA2_CHECK=1, and on the interpreter, a wrong entry is FA2_INVALID_REQUEST.
 *   page_table: key j of sequence b is row j % page_size of page page_table[b * page_table_stride + j / page_size]. Kernels ignore
 *     entries beyond a sequence's length. An entry outside [0, page_count) names no page if fa2_problem.missing_pages is 1;
 *     otherwise they replace it by the nearest one inside, and it is checked as above.
 *   workspace: fa2_plan_workspace_bytes() bytes at a multiple of 256, which overlap nothing else. Fill them with zeros once, and do
 *     not write to them afterwards: each launch restores the zeros that it needs. Launches of one stream may share them. NULL: the
 *     context provides the memory. Ignored if no launch needs any. */
#include <fa2/c_call.h>

/* ---- contexts ---- */

/* Owns kernel caches, tuning records and the memo of plans. Thread-safe. NULL in place of a context means the process's default
 * one, which the first use makes from the environment (FA2_CACHE_DIR, FA2_TUNE, ...) and which lives as long as the process. */
typedef struct fa2_context fa2_context;

/* fa2_context_options.tune. OFF: the heuristic alone. STORED: tuning records, else the heuristic. LEARN: the same, and
 * what has no exact record is measured meanwhile, for processes that start later. ADAPTIVE: the context follows that at once, so the
 * bits of a problem may change. NOW: calls wait for it. */
enum {
  FA2_TUNE_DEFAULT = 0,
  FA2_TUNE_OFF = 1,
  FA2_TUNE_STORED = 2,
  FA2_TUNE_LEARN = 3,
  FA2_TUNE_ADAPTIVE = 4,
  FA2_TUNE_NOW = 5
};

/* fa2_context_options.jit. ON: compile kernels that no cache holds, and on other cores those that are likely to be needed next.
 * OFF: run a similar cached kernel; FA2_UNAVAILABLE without one. LAZY: compile what a call needs, and nothing else. */
enum { FA2_JIT_DEFAULT = 0, FA2_JIT_ON = 1, FA2_JIT_OFF = 2, FA2_JIT_LAZY = 3 };

/* A field that is NULL or 0 comes from the environment variable named here, then from the variable's default. */
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

/* Destroys the context; NULL is fine. Work that the context enqueued must have finished, and no other thread may use the context.
 * Plans made from it stay usable. */
FA2_C_API fa2_status fa2_context_destroy(fa2_context* context);

/* ---- attention ---- */

/* Enqueues the problem on `stream` (a CUstream or cudaStream_t; NULL: the legacy default stream) of the current CUDA device. The
 * first call for a problem may compile and load, and with FA2_TUNE_NOW search. Later calls look the plan up and launch. While the stream captures, a
 * problem without a plan is FA2_UNAVAILABLE. The plan's row_alignment is the strictest that the arguments satisfy: rows that are
 * not 16-byte aligned run the kernel of FA2_ROWS_ELEMENT. Thread-safe. */
FA2_C_API fa2_status fa2_attention(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                                   void* stream);

/* A problem prepared for one device. Immutable: any thread may use it, also while a stream captures.
 *
 * A captured graph owns no memory that its launches use, and capture fixes the pointers. Until its last launch has finished, keep
 * alive the plan or its context, and all memory that the arguments point to, including the workspace. The last of plan and context
 * unloads the kernel and frees memory that the context provided. Destroy the graph before the library is unloaded. Executables of
 * one capture use the same memory, so they must not run at the same time.
 *
 * The launches of a capture and stream that have no workspace hold one counter slot of their context, of 2^18 per device or of
 * 2^12 for split KV, until the graph, its clones and its executables are destroyed and have finished. FA2_UNAVAILABLE if all slots are
 * held. */
typedef struct fa2_plan fa2_plan;

/* Devices in addition to CUDA ordinals: the current one, and the interpreter, whose memory is host memory (docs/interpreter.md). */
enum { FA2_CURRENT_DEVICE = -1, FA2_INTERPRETER_DEVICE = -2 };

/* What every call of the plan guarantees. */
typedef struct fa2_plan_options {
  uint32_t struct_size;  /* sizeof(fa2_plan_options) */
  int32_t row_alignment; /* FA2_ROWS_... */
} fa2_plan_options;

#define FA2_PLAN_OPTIONS_INIT \
  { sizeof(fa2_plan_options), FA2_ROWS_16_BYTES }

/* Makes a plan for `device`: a CUDA ordinal, FA2_CURRENT_DEVICE or FA2_INTERPRETER_DEVICE. `options` is optional. May compile, load
 * and search. On failure *plan is NULL. */
FA2_C_API fa2_status fa2_plan_create(fa2_context* context, const fa2_problem* problem, int32_t device,
                                     const fa2_plan_options* options, fa2_plan** plan);

/* Checks the arguments and launches, without synchronisation. Takes no lock and allocates nothing, except without a workspace, if
 * the launch needs one and is captured or splits keys. `args` must satisfy the plan's row_alignment. */
FA2_C_API fa2_status fa2_plan_run(const fa2_plan* plan, const fa2_args* args, void* stream);

/* Writes the size of fa2_args.workspace to *bytes: a multiple of 256; 0 if no launch needs one. */
FA2_C_API fa2_status fa2_plan_workspace_bytes(const fa2_plan* plan, size_t* bytes);

/* Writes to *bytes how many leading bytes of the workspace must be zero; the rest may hold anything. */
FA2_C_API fa2_status fa2_plan_workspace_zeros(const fa2_plan* plan, size_t* bytes);

/* Writes a JSON object to *json: what runs, and why. Its "kernels" is an array with each kernel's config and the config's origin,
 * its key, cache file, compile time and resources. Free *json with fa2_string_free(); it is NULL on failure. */
FA2_C_API fa2_status fa2_plan_explain(const fa2_plan* plan, char** json);

/* Destroys the plan; NULL is fine. Work that the plan enqueued must have finished, and no other thread may use the plan. */
FA2_C_API fa2_status fa2_plan_destroy(fa2_plan* plan);

/* ---- ahead of time ---- */

/* fa2_precompile_options.scope. ANY_SIZE: every kernel that problems with the same dtypes, head dims, masks and variants can run
 * with, whatever their sizes. GIVEN_SIZES: the kernel that each problem itself runs with. */
enum { FA2_PRECOMPILE_ANY_SIZE = 0, FA2_PRECOMPILE_GIVEN_SIZES = 1 };

/* Hears of each kernel when it is finished: from any thread, one call at a time. It must not call fa2. */
typedef void (*fa2_progress)(void* data, size_t done, size_t total);

typedef struct fa2_precompile_options {
  uint32_t struct_size;  /* sizeof(fa2_precompile_options) */
  int32_t scope;         /* FA2_PRECOMPILE_... */
  int32_t jobs;          /* compiling threads; 0: one per core */
  int32_t row_alignment; /* FA2_ROWS_...: of the plans that need the kernels */
  const char*
      out; /* the cache directory to fill, or the pack to write (.fa2pack); NULL: the context's own directory */
  int32_t backward;      /* 1: add each problem's backward, which must exist, for any gradients */
  int32_t reserved;      /* 0 */
  int32_t append;        /* 1: add the kernel of fa2_append() to caches of the problem's K and V */
  int32_t merge;         /* 1: add the kernel of fa2_merge() of partial outputs like the problem's O */
  fa2_progress progress; /* optional */
  void* progress_data;   /* first argument of each call of `progress` */
  const char*
      requests; /* a file that FA2_LOG_REQUESTS has written: adds its kernels, for `archs` or, if there are none, for the
                            GPU of each request; NULL: none */
  int32_t shard;  /* makes every `shards`-th kernel, from this one on; 0 to shards - 1 */
  int32_t shards; /* machines that share the work; 0: 1 */
} fa2_precompile_options;

#define FA2_PRECOMPILE_OPTIONS_INIT                                                                        \
  {                                                                                                        \
    sizeof(fa2_precompile_options), FA2_PRECOMPILE_ANY_SIZE, 0, FA2_ROWS_16_BYTES, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0                                                                                               \
  }

/* Compiles, for every arch ("sm_80", "sm_90a", ...), the kernels that the problems run with. Needs NVRTC, but neither a GPU nor a
 * driver. All elements of `problems` must have the first one's struct_size. Widths of windows and chunks do not matter. `options`
 * is optional. *report (optional) is a JSON array with one object per kernel; free it with fa2_string_free(). If some kernels
 * fail, the function still writes *report and returns FA2_COMPILE; fa2_last_error() then lists the failures. */
FA2_C_API fa2_status fa2_precompile(fa2_context* context, const fa2_problem* problems, size_t problem_count,
                                    const char* const* archs, size_t arch_count,
                                    const fa2_precompile_options* options, char** report);

/* fa2_tune_options.scope. LIKELY: the configurations most similar to the heuristic's. ALL: every valid one, which takes a budget of
 * minutes. */
enum { FA2_TUNE_LIKELY = 0, FA2_TUNE_ALL = 1 };

typedef struct fa2_tune_options {
  uint32_t struct_size;  /* sizeof(fa2_tune_options) */
  int32_t scope;         /* FA2_TUNE_LIKELY, FA2_TUNE_ALL */
  int32_t row_alignment; /* FA2_ROWS_...: of the plans that use the record */
  int32_t backward; /* 1: search the kernels of the backward, for all gradients, instead of the forward's */
} fa2_tune_options;

#define FA2_TUNE_OPTIONS_INIT \
  { sizeof(fa2_tune_options), FA2_TUNE_LIKELY, FA2_ROWS_16_BYTES, 0 }

/* Searches configurations for one problem on `device` (or FA2_CURRENT_DEVICE) and stores the tuning record. Uses the GPU for about
 * the tuning budget. `options` is optional. *report (optional) is a JSON object with every candidate; free it with
 * fa2_string_free(). For a backward it is a JSON array with one such object per kernel that has more than one configuration; each
 * kernel has its own record and takes the whole budget. */
FA2_C_API fa2_status fa2_tune(fa2_context* context, const fa2_problem* problem, int32_t device,
                              const fa2_tune_options* options, char** report);

#ifdef __cplusplus
}
#endif

#endif
