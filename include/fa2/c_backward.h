/* Gradients in fa2's C interface. */
#ifndef FA2_C_BACKWARD_H
#define FA2_C_BACKWARD_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which gradients a plan computes, or'ed together; nothing is computed, or read, for the others alone. FA2_D_SINKS: only
 * of a problem with sinks. FA2_ALL_GRADIENTS: those that every problem has. And how they are computed.
 * FA2_FASTEST: float32 sums may be added up in any order, which differs from run to run; only those of dQ are, where all
 * three gradients are computed, of no packed sequences. FA2_BITWISE: the same bits in every run, and those of a sequence do not
 * depend on what else is in the batch; fa2_problem.batch_invariant implies it. */
/* clang-format off */
enum { FA2_DQ = 1, FA2_DK = 2, FA2_DV = 4, FA2_ALL_GRADIENTS = 7, FA2_D_SINKS = 8, FA2_FASTEST = 0, FA2_BITWISE = 256 };
/* clang-format on */

/* Computes the gradients that `args` point to (FlashAttention-2, section 3.1.2). Thread-safe.
 *   fa2_backward_args args = FA2_BACKWARD_ARGS_INIT;
 *   args.forward = &forward;  what fa2_attention() was called with; o and lse, which must be given, are inputs here
 *   args.d_o.data = d_o, args.dq.data = dq, args.dk.data = dk, args.dv.data = dv;  and the strides of the four
 *   if (fa2_attention_backward(NULL, &problem, &args, stream) != FA2_OK) puts(fa2_last_error());
 * Rows of gradients must not overlap; slices of one packed dQKV buffer are fine. Rows that take part in no score get 0; rows of
 * no sequence keep what they hold. `determinism` is read here; a plan has its own. `workspace` is optional:
 * fa2_backward_plan_workspace_bytes() bytes at a multiple of 256, whatever they hold, which belong to one launch at a time. NULL:
 * memory of the stream is allocated and freed. */
FA2_C_API fa2_status fa2_attention_backward(fa2_context* context, const fa2_problem* problem,
                                            const fa2_backward_args* args, void* stream);

/* The backward of a problem made ready on one device. Immutable: usable from any thread and while a stream captures.
 * Of graphs and of what has to outlive them the same holds as of a fa2_plan. */
typedef struct fa2_backward_plan fa2_backward_plan;

/* As fa2_plan_create(). `gradients`: FA2_DQ, FA2_DK, FA2_DV, FA2_D_SINKS, and FA2_BITWISE. */
FA2_C_API fa2_status fa2_backward_plan_create(fa2_context* context, const fa2_problem* problem,
                                              int32_t device, int32_t gradients,
                                              const fa2_plan_options* options, fa2_backward_plan** plan);

/* Checks the arguments and launches: no synchronisation; no lock and no allocation but of the stream's memory where the
 * arguments bring no workspace. `args` must obey the plan's row_alignment, the gradients' rows too. */
FA2_C_API fa2_status fa2_backward_plan_run(const fa2_backward_plan* plan, const fa2_backward_args* args,
                                           void* stream);

/* How many bytes fa2_backward_args.workspace has, if it is given: 4 a row of Q and head, rounded up to a multiple of 256,
 * or 0 for FA2_DV alone. Where dQ is summed over tiles of keys, twice as many and dQ in float32, its rows (each packed sequence's) filled up to
 * whole tiles of at most 128, its columns to a multiple of 16, or above 64 to 128 or 256. */
FA2_C_API fa2_status fa2_backward_plan_workspace_bytes(const fa2_backward_plan* plan, size_t* bytes);

/* As fa2_plan_explain(); "kernels" are in the order of their launches. */
FA2_C_API fa2_status fa2_backward_plan_explain(const fa2_backward_plan* plan, char** json);

/* As fa2_plan_destroy(). */
FA2_C_API fa2_status fa2_backward_plan_destroy(fa2_backward_plan* plan);

#ifdef __cplusplus
}
#endif

#endif
