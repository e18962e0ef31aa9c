/* Dropout in fa2's C interface: fa2_problem.dropout, the numbers of fa2_args and what they come to.
 *
 * Probabilities are dropped at random, and what is kept is divided by the share that is kept on average. Which are dropped
 * is a function of seed, offset and (batch, query head, query, key), of packed sequences of the sequence and its own rows:
 * the same in the backward as in the forward, whatever kernel runs, on every device. */
#ifndef FA2_C_DROPOUT_H
#define FA2_C_DROPOUT_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For tests. `mask`: bytes on the device, contiguous (batch, heads_q, seqlen_q, seqlen_k), 1 where a probability is kept.
 * Of `problem` those four count alone, and of `args` dropout's numbers. With varlen, entry (b, h, i, j) is of query i and
 * key j of sequence b, whatever its length. Hidden keys have one too. */
FA2_C_API fa2_status fa2_dropout_mask(fa2_context* context, const fa2_problem* problem, const fa2_args* args,
                                      uint8_t* mask, void* stream);

#ifdef __cplusplus
}
#endif

#endif
