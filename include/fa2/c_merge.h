/* Attention over parts of the keys, merged to attention over all of them, in fa2's C interface: fa2/merge.h has what it is for. */
#ifndef FA2_C_MERGE_H
#define FA2_C_MERGE_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On the current device; `context` NULL: the default one. While `stream` captures, of a dtype, head dim and alignment that were
 * merged before. Thread-safe. Without compiling (FA2_JIT=off) its kernel comes from a pack made with
 * fa2_precompile_options.merge. */
FA2_C_API fa2_status fa2_merge(fa2_context* context, const fa2_merge_problem* problem,
                               const fa2_merge_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif
