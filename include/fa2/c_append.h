/* New keys and values into a cache, keys and queries turned by rotary embedding, in fa2's C interface: fa2/append.h has what it
 * does and what is left out where. */
#ifndef FA2_C_APPEND_H
#define FA2_C_APPEND_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fa2_append_problem.rotary_style: which two columns turn together by the angle of number i < rotary_dim / 2.
 *   FA2_ROTARY_HALVES:      i and i + rotary_dim / 2 (GPT-NeoX)
 *   FA2_ROTARY_INTERLEAVED: 2 i and 2 i + 1 (GPT-J) */
enum { FA2_ROTARY_HALVES = 0, FA2_ROTARY_INTERLEAVED = 1 };

/* On the current device; `context` NULL: the default one. Thread-safe; no two sequences may append to the same rows. Without
 * compiling (FA2_JIT=off) its kernel comes from a pack made with fa2_precompile_options.append. */
FA2_C_API fa2_status fa2_append(fa2_context* context, const fa2_append_problem* problem,
                                const fa2_append_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif
