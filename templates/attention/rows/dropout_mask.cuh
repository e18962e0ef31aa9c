// The dropout mask kernel: stores one byte per probability, 1 if dropout keeps it.
#pragma once

#include "attention/common/dropout.cuh"

namespace fa2 {

/// Runs one thread, which makes one Philox call. The grid covers whole 16 x 16 blocks of every head.
template <class Config>
FA2_DEVICE void dropout_mask(const DropoutMaskParams& params) {
  const AttentionParams& attention = params.attention;
  const i64 queries = (attention.seqlen_q + 15) / 16 * 8, keys = (attention.seqlen_k + 15) / 16 * 4;
  const i64 number = static_cast<i64>(ptx::block_index()) * (Config::warps * 32) + ptx::thread_index();
  const int head = static_cast<int>(number / (queries * keys));
  if (head >= attention.head_count) return;
  const int query = static_cast<int>(number / keys % queries), key = static_cast<int>(number % keys);
  const PhiloxWords words = dropout_of<Config>(attention).of_head({}, head).words(query, key);
  FA2_UNROLL
  for (int i = 0; i < 8; ++i) {
    const int row = query / 8 * 16 + query % 8 + 8 * (i % 2);
    const int col = key / 4 * 16 + key % 4 * 2 + i / 2 % 2 + 8 * (i / 4);
    if (row >= attention.seqlen_q || col >= attention.seqlen_k) continue;
    const u32 word = words.word[i % 4], number_of_pair = i < 4 ? word : Dropout<Config>::exchanged(word);
    const i64 place = (static_cast<i64>(head) * attention.seqlen_q + row) * attention.seqlen_k + col;
    ptx::st_global_u8(params.mask + place, number_of_pair >= attention.dropout.threshold ? 1 : 0);
  }
}

}  // namespace fa2
