/* Attention over a sequence whose tokens are sharded over ranks, in fa2's C interface. fa2/context_parallel.h says what plans compute, and
 * fa2/communicator.h what ranks owe each other.
 *
 *   fa2_shard_layout_create(FA2_LAYOUT_ZIGZAG, tokens, NULL, 0, ranks, 128, &layout);
 *   fa2_nccl_init(&id, ranks, rank, NULL, &communicator);
 *   fa2_context_parallel_plan_create(NULL, &problem, layout, NULL, 0, communicator, NULL, FA2_CURRENT_DEVICE, &plan);
 *   fa2_context_parallel_plan_run(plan, &args, stream);                                    each of these on every rank */
#ifndef FA2_C_CONTEXT_PARALLEL_H
#define FA2_C_CONTEXT_PARALLEL_H

#include <fa2/c_api.h>
#include <fa2/c_backward.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- which rank holds which tokens ---- */

/* Immutable; any thread may read it. */
typedef struct fa2_shard_layout fa2_shard_layout;

/* FA2_LAYOUT_CONTIGUOUS: chunk r of P for rank r. FA2_LAYOUT_ZIGZAG: chunks r and 2P - 1 - r of 2P, or those of each document. */
enum { FA2_LAYOUT_CONTIGUOUS = 0, FA2_LAYOUT_ZIGZAG = 1 };

/* Makes a layout. `cu_seqlens`: where documents begin, and the end, `documents` + 1 numbers; NULL and 0 without documents, which contiguous
 * layouts ignore. Chunks begin at multiples of `granule` tokens. On failure *layout is NULL. */
FA2_C_API fa2_status fa2_shard_layout_create(int32_t kind, int64_t tokens, const int64_t* cu_seqlens,
                                             size_t documents, int32_t ranks, int64_t granule,
                                             fa2_shard_layout** layout);

/* Makes a layout of any slices. `slice_counts`: of each rank. `borders`: begin and end of each slice, of rank 0 first. */
FA2_C_API fa2_status fa2_shard_layout_of_slices(int64_t tokens, int32_t ranks, const size_t* slice_counts,
                                                const int64_t* borders, fa2_shard_layout** layout);

/* Writes where the slices of a rank begin and end, two numbers each; they exist as long as the layout. */
FA2_C_API fa2_status fa2_shard_layout_slices(const fa2_shard_layout* layout, int32_t rank,
                                             const int64_t** borders, size_t* slice_count);

/* Frees a layout; NULL is fine. Plans keep what they need of it. */
FA2_C_API fa2_status fa2_shard_layout_destroy(fa2_shard_layout* layout);

/* ---- how ranks exchange data ---- */

/* One rank's end of a group. One thread at a time may use it. It must outlive its plans. */
typedef struct fa2_communicator fa2_communicator;

/* One message. Messages of a pair of ranks in one direction match in the order in which both list them. */
typedef struct fa2_transfer {
  int32_t receives; /* 0: a send, which only reads `data` */
  int32_t peer;     /* the other rank */
  void* data;
  size_t bytes; /* equal on both ranks */
} fa2_transfer;

/* Functions of the caller: MPI, or another library. Each returns 0, or any other number for a failure, which ends the call of fa2
 * with FA2_COMMUNICATION. Their first argument is fa2_communicator_functions.data.
 *   fa2_exchange: enqueues all transfers as one group on `stream`, and writes its number: 0, 1, ...
 *   fa2_wait: returns when host code may read what exchange `number` received.
 *   fa2_all_gather: copies `bytes` of host memory of every rank to `all`, in rank order. */
typedef int32_t (*fa2_exchange)(void* data, const fa2_transfer* transfers, size_t count, void* stream,
                                uint64_t* number);
typedef int32_t (*fa2_wait)(void* data, uint64_t number);
typedef int32_t (*fa2_all_gather)(void* data, const void* mine, size_t bytes, void* all);

typedef struct fa2_communicator_functions {
  uint32_t struct_size; /* sizeof(fa2_communicator_functions) */
  int32_t rank;
  int32_t size;
  int32_t
      peer_memory; /* 1: plans may exchange data by copy engines instead, where ranks can map each other's memory; 0: never */
  void* data; /* first argument of each call */
  fa2_exchange exchange;
  fa2_wait wait;             /* NULL: exchanges run on their stream */
  fa2_all_gather all_gather; /* NULL: by exchange() of host memory, and wait() */
} fa2_communicator_functions;

#define FA2_COMMUNICATOR_FUNCTIONS_INIT \
  { sizeof(fa2_communicator_functions), 0, 0, 0, 0, 0, 0, 0 }

FA2_C_API fa2_status fa2_communicator_create(const fa2_communicator_functions* functions,
                                             fa2_communicator** communicator);

/* What ranks need to know of each other before they can form a communicator of NCCL: ncclUniqueId. One rank makes it, and hands it
 * to all others. */
typedef struct fa2_nccl_id {
  char bytes[128];
} fa2_nccl_id;
FA2_C_API fa2_status fa2_nccl_id_make(fa2_nccl_id* id);

typedef struct fa2_nccl_options {
  uint32_t struct_size; /* sizeof(fa2_nccl_options) */
  int32_t max_blocks;   /* most thread blocks that move data, each on an SM of its own; 0: NCCL's choice */
  int64_t timeout_ms;   /* how long a host function waits for other ranks; 0: 10 minutes */
  int32_t
      no_peer_memory; /* 1: plans exchange data by NCCL alone; 0: by copy engines where ranks can map each other's memory */
  int32_t reserved; /* 0 */
} fa2_nccl_options;

#define FA2_NCCL_OPTIONS_INIT \
  { sizeof(fa2_nccl_options), 0, 0, 0, 0 }

/* Make a communicator of NCCL; fa2/nccl_communicator.h says more. `options` is optional. init: on the current device; all ranks must
 * call it. split: with the ranks of `comm`, an ncclComm_t; all ranks must call it. borrow: uses `comm`, which must outlive it. */
FA2_C_API fa2_status fa2_nccl_init(const fa2_nccl_id* id, int32_t ranks, int32_t rank,
                                   const fa2_nccl_options* options, fa2_communicator** communicator);
FA2_C_API fa2_status fa2_nccl_split(void* comm, const fa2_nccl_options* options,
                                    fa2_communicator** communicator);
FA2_C_API fa2_status fa2_nccl_borrow(void* comm, const fa2_nccl_options* options,
                                     fa2_communicator** communicator);

/* Returns FA2_COMMUNICATION with the communicator's first error, asynchronous ones too. Who waits for a stream must call it from time to time. */
FA2_C_API fa2_status fa2_communicator_check(fa2_communicator* communicator);

/* Destroys a communicator; NULL is fine. Its plans must be destroyed. */
FA2_C_API fa2_status fa2_communicator_destroy(fa2_communicator* communicator);

/* ---- attention ---- */

/* fa2_context_parallel_options.scheme */
enum {
  FA2_SCHEME_AUTOMATIC = 0,
  FA2_SCHEME_GATHER_HEADS = 1,
  FA2_SCHEME_LOCAL = 2,
  FA2_SCHEME_ALL_TO_ALL = 3,
  FA2_SCHEME_STAGED = 4
};

/* Must be equal on all ranks. */
typedef struct fa2_context_parallel_options {
  uint32_t struct_size;  /* sizeof(fa2_context_parallel_options) */
  int32_t scheme;        /* FA2_SCHEME_... */
  int32_t groups;        /* of heads, or of batch entries; 0: chosen */
  int32_t gradients;     /* FA2_DQ and the others, or'ed together: of the backward; 0: there is none */
  int32_t row_alignment; /* FA2_ROWS_... */
} fa2_context_parallel_options;

#define FA2_CONTEXT_PARALLEL_OPTIONS_INIT \
  { sizeof(fa2_context_parallel_options), FA2_SCHEME_AUTOMATIC, 0, 0, FA2_ROWS_16_BYTES }

/* Attention over all tokens of a layout, prepared for one rank and its device. */
typedef struct fa2_context_parallel_plan fa2_context_parallel_plan;

/* Prepares attention. `problem`: of all tokens; with documents packed, and `cu_seqlens` has documents + 1 numbers on the host. `options` is
 * optional. All ranks must call this with the same arguments, which it checks. On failure *plan is NULL. */
FA2_C_API fa2_status fa2_context_parallel_plan_create(fa2_context* context, const fa2_problem* problem,
                                                      const fa2_shard_layout* layout,
                                                      const int64_t* cu_seqlens, size_t documents,
                                                      fa2_communicator* communicator,
                                                      const fa2_context_parallel_options* options,
                                                      int32_t device, fa2_context_parallel_plan** plan);

/* Enqueue the forward, and the backward, of the rank's own tokens. All ranks must call them in the same order. `workspace` of the arguments:
 * fa2_context_parallel_plan_workspace_bytes() bytes, which may hold anything; NULL: memory of the stream. */
FA2_C_API fa2_status fa2_context_parallel_plan_run(fa2_context_parallel_plan* plan, const fa2_args* args,
                                                   void* stream);
FA2_C_API fa2_status fa2_context_parallel_plan_run_backward(fa2_context_parallel_plan* plan,
                                                            const fa2_backward_args* args, void* stream);

FA2_C_API fa2_status fa2_context_parallel_plan_workspace_bytes(const fa2_context_parallel_plan* plan,
                                                               size_t* bytes);

/* Writes a JSON object to *json, like fa2_plan_explain(): the scheme and why, bytes to and from each rank, and what runs. */
FA2_C_API fa2_status fa2_context_parallel_plan_explain(const fa2_context_parallel_plan* plan, char** json);

/* Destroys a plan; NULL is fine. Its work must have ended. */
FA2_C_API fa2_status fa2_context_parallel_plan_destroy(fa2_context_parallel_plan* plan);

/* ---- decoding ---- */

/* Attention of few queries over keys that ranks hold, prepared for one rank and its device: fa2::ContextParallelDecodePlan. */
typedef struct fa2_context_parallel_decode_plan fa2_context_parallel_decode_plan;

/* Prepares decoding. `problem`: all query heads, over the rank's own keys. Only seqlen_k, total_k and page_count may differ between
 * ranks. `options` is optional. All ranks must call this. On failure *plan is NULL. */
FA2_C_API fa2_status fa2_context_parallel_decode_plan_create(fa2_context* context, const fa2_problem* problem,
                                                             fa2_communicator* communicator,
                                                             const fa2_plan_options* options, int32_t device,
                                                             fa2_context_parallel_decode_plan** plan);

/* Enqueues attention. All ranks must call this in the same order. `args`: Q, O and LSE of the rank's heads, and everything else of its own
 * keys. Only rank 0 reads sinks, of all heads. `workspace`: as for fa2_context_parallel_plan_run(). */
FA2_C_API fa2_status fa2_context_parallel_decode_plan_run(fa2_context_parallel_decode_plan* plan,
                                                          const fa2_args* args, void* stream);

FA2_C_API fa2_status
fa2_context_parallel_decode_plan_workspace_bytes(const fa2_context_parallel_decode_plan* plan, size_t* bytes);

/* Writes a JSON object to *json, like fa2_plan_explain(): the attention of the rank, and how messages travel. */
FA2_C_API fa2_status fa2_context_parallel_decode_plan_explain(const fa2_context_parallel_decode_plan* plan,
                                                              char** json);

/* Destroys a plan; NULL is fine. Its work must have ended. */
FA2_C_API fa2_status fa2_context_parallel_decode_plan_destroy(fa2_context_parallel_decode_plan* plan);

#ifdef __cplusplus
}
#endif

#endif
