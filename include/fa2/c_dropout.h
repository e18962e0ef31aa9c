/* Dropout in fa2's C interface: fa2_problem.dropout, the numbers of fa2_args, and the mask that follows from them.
 *
 * Probabilities are dropped at random, and the others are divided by 1 - dropout_probability. Which ones are dropped follows from
 * seed, offset and (batch, query head, query, key) alone; queries and keys of packed sequences count from their sequence's first
 * row. So every kernel, every device, forward and backward agree. */
#ifndef FA2_C_DROPOUT_H
#define FA2_C_DROPOUT_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes which probabilities dropout keeps (1) or drops (0), for tests. `mask` must be contiguous bytes (batch, heads_q, seqlen_q,
 * seqlen_k) on the device. Only these four sizes of `problem` and dropout's numbers in `args` matter. With varlen, entry
 * (b, h, i, j) belongs to query i and key j of sequence b, whatever its length. Hidden keys have an entry too. */
FA2_C_API fa2_status fa2_dropout_mask(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                                      uint8_t* mask, void* stream);

#ifdef __cplusplus
}
#endif

#endif
