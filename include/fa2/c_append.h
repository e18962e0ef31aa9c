/* Appends keys and values to a KV cache and applies rotary embedding, in fa2's C interface. fa2/append.h describes the operation,
 * and which rows it skips. */
#ifndef FA2_C_APPEND_H
#define FA2_C_APPEND_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fa2_append_problem.rotary_style: which two columns are rotated together by angle i < rotary_dim / 2.
 *   FA2_ROTARY_HALVES:      i and i + rotary_dim / 2 (GPT-NeoX)
 *   FA2_ROTARY_INTERLEAVED: 2 i and 2 i + 1 (GPT-J) */
enum { FA2_ROTARY_HALVES = 0, FA2_ROTARY_INTERLEAVED = 1 };

/* Appends on the current device. `context` may be NULL: the default one. No two sequences may append to the same rows. FA2_JIT=off
 * needs a kernel pack that was made with fa2_precompile_options.append. Thread-safe. */
FA2_C_API fa2_status fa2_append(fa2_context* context, const fa2_append_problem* problem,
                                const fa2_append_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif
