/* Merges attention over disjoint sets of keys into attention over all of them, in fa2's C interface. fa2/merge.h describes it. */
#ifndef FA2_C_MERGE_H
#define FA2_C_MERGE_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Merges on the current device. `context` may be NULL: the default one. While `stream` captures, fa2_merge() must already have run
 * with this dtype, head dim and alignment. FA2_JIT=off needs a kernel pack that was made with fa2_precompile_options.merge.
 * Thread-safe. */
FA2_C_API fa2_status fa2_merge(fa2_context* context, const fa2_merge_problem* problem,
                               const fa2_merge_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif
