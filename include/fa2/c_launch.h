/* Calls of tensors that fa2/c_tensors.h has bound: on the device of the tensors, with memory that the caller allocates.
 *
 *   fa2_launch launch = FA2_LAUNCH_INIT;
 *   fa2_bind_attention(tensors, FA2_ATTENTION_TENSORS, &problem, &args, &launch.place);
 *   launch.stream = stream, launch.allocate = allocate, launch.release = release;
 *   fa2_launch_attention(&problem, &args, &launch);
 *
 * Plans come from the default context, which memoises them. All functions are thread-safe. */
#ifndef FA2_C_LAUNCH_H
#define FA2_C_LAUNCH_H

#include <fa2/c_tensors.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns an owner of `bytes` bytes on `device` for work on `stream`, at *data, a multiple of 256. The first `zeros` of
 * them must be 0 for that work. NULL: there is no memory, and the call returns FA2_UNAVAILABLE. fa2 may hold
 * no lock while it calls. */
typedef void* (*fa2_allocate)(int32_t device, void* stream, size_t bytes, size_t zeros, void** data);

/* Releases an owner that fa2_allocate returned. Work already on its stream may still use the memory. */
typedef void (*fa2_release)(void* owner);

typedef struct fa2_launch {
  uint32_t struct_size;  /* sizeof(fa2_launch) */
  int32_t keeps;         /* not 0: the stream may keep a workspace for its later calls; else it is released */
  fa2_placement place;   /* device and alignment of the tensors, which the binding found */
  void* stream;          /* a stream of that device; not looked at on the interpreter */
  fa2_allocate allocate; /* for workspaces; NULL: the context's own memory */
  fa2_release release;   /* with allocate */
  /* NULL, or of fa2_block_map_create(): a map for all launches of this problem on this stream while captures and tables hold
   * the same. A launch that finds none for its tiles makes one, in memory of `allocate`. Replaces the arguments' block_map.
   * Launches that are captured into graphs, or of no mask, ignore it. */
  fa2_block_map* block_map;
} fa2_launch;

/* clang-format off */
#define FA2_LAUNCH_INIT {sizeof(fa2_launch), 0, {FA2_CURRENT_DEVICE, FA2_ROWS_16_BYTES}, 0, 0, 0, 0}
/* clang-format on */

/* As fa2_attention(). A workspace of the arguments is ignored: `launch` says where one comes from. While the stream
 * captures, the graph gets a workspace of its own. */
FA2_C_API fa2_status fa2_launch_attention(const fa2_problem* problem, const fa2_args* args,
                                          const fa2_launch* launch);

/* As fa2_attention_backward(), likewise. Its workspace is never kept. */
FA2_C_API fa2_status fa2_launch_backward(const fa2_problem* problem, const fa2_backward_args* args,
                                         const fa2_launch* launch);

/* Sets `bytes` bytes at `data` to 0, in the order of `launch`'s stream: for outputs with rows that belong to no sequence,
 * which calls do not write. */
FA2_C_API fa2_status fa2_fill_zeros(void* data, size_t bytes, const fa2_launch* launch);

/* Runs body(data) with `device` as the calling thread's current device: a CUDA ordinal or FA2_INTERPRETER_DEVICE. Returns
 * what body returns. Functions that run on the current device, such as fa2_append(), follow. */
FA2_C_API fa2_status fa2_on_device(int32_t device, fa2_status (*body)(void* data), void* data);

#ifdef __cplusplus
}
#endif

#endif
