/* Gradients in fa2's C interface. */
#ifndef FA2_C_BACKWARD_H
#define FA2_C_BACKWARD_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which gradients a plan computes, and how, or'ed together. A plan neither computes nor reads anything only for the others.
 *   FA2_D_SINKS: needs a problem with sinks.
 *   FA2_D_CAPTURES: the gradients of captured tensors that fa2_backward_args.d_captures asks for.
 *   FA2_ALL_GRADIENTS: the gradients that every problem has.
 *   FA2_FASTEST: dQ may be accumulated over key tiles in any order, in float32, so that its last bits may differ between runs.
 *   FA2_BITWISE: every run has the same bits, and those of a sequence do not depend on the rest of the batch.
 *     fa2_problem.batch_invariant implies it. */
enum {
  /* written: gradient flags */
  FA2_DQ = 1,
  FA2_DK = 2,
  FA2_DV = 4,
  FA2_D_SINKS = 8,
  FA2_D_CAPTURES = 16,
  /* end of gradient flags */
  FA2_ALL_GRADIENTS = FA2_DQ | FA2_DK | FA2_DV,
  FA2_FASTEST = 0,
  FA2_BITWISE = 256
};

/* Computes the gradients that `args` point to (FlashAttention-2, section 3.1.2). Thread-safe.
 *   fa2_backward_args args = FA2_BACKWARD_ARGS_INIT;
 *   args.forward = &forward;  the arguments of fa2_attention(); o and lse are inputs here, and must be given
 *   args.d_out.data = d_out, args.dq.data = dq, args.dk.data = dk, args.dv.data = dv;  and the strides of the four
 *   if (fa2_attention_backward(NULL, &problem, &args, stream) != FA2_OK) puts(fa2_last_error());
 * Rows of gradients must not overlap; slices of one packed dQKV buffer are fine. Rows that take part in no score get 0. Kernels do
 * not write rows of no sequence. `determinism` applies here; a plan has its own. `workspace` is optional:
 * fa2_backward_plan_workspace_bytes() bytes at a multiple of 256, which may hold anything. One launch at a time may use them. NULL:
 * the call allocates memory of the stream and frees it. */
FA2_C_API fa2_status fa2_attention_backward(fa2_context* context, const fa2_problem* problem,
                                            const fa2_backward_args* args, void* stream);

/* The backward of a problem, prepared for one device. Immutable: any thread may use it, also while a stream captures. What fa2_plan
 * says of graphs and of lifetimes applies here too. */
typedef struct fa2_backward_plan fa2_backward_plan;

/* Makes a plan, like fa2_plan_create(). `gradients`: FA2_DQ and the others, or'ed together. */
FA2_C_API fa2_status fa2_backward_plan_create(fa2_context* context, const fa2_problem* problem,
                                              int32_t device, int32_t gradients,
                                              const fa2_plan_options* options, fa2_backward_plan** plan);

/* Checks the arguments and launches, without synchronisation. Takes no lock and allocates nothing, except for memory of the stream
 * if the arguments have no workspace. `args` must satisfy the plan's row_alignment, the gradients' rows too. */
FA2_C_API fa2_status fa2_backward_plan_run(const fa2_backward_plan* plan, const fa2_backward_args* args,
                                           void* stream);

/* Writes the size of fa2_backward_args.workspace to *bytes, a multiple of 256: 0 for FA2_DV alone, else 4 per row of Q and head. If
 * key tiles accumulate dQ, 12 per row and head, and dQ in float32. Then each sequence has whole tiles of at most 128 rows, and
 * columns are padded to a multiple of 16, or above 64 to 128 or 256. */
FA2_C_API fa2_status fa2_backward_plan_workspace_bytes(const fa2_backward_plan* plan, size_t* bytes);

/* Explains the plan, like fa2_plan_explain(). Its "kernels" are in launch order. */
FA2_C_API fa2_status fa2_backward_plan_explain(const fa2_backward_plan* plan, char** json);

/* Destroys the plan, like fa2_plan_destroy(). */
FA2_C_API fa2_status fa2_backward_plan_destroy(fa2_backward_plan* plan);

#ifdef __cplusplus
}
#endif

#endif
