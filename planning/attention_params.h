// What the kernels of an attention take of a problem and of a call.
#pragma once

#include <fa2/args.h>
#include <fa2/config.h>
#include <fa2/problem.h>

#include <cstdint>
#include <templates/attention/common/params.cuh>

namespace fa2 {

/// All but pointers, strides, scale and empty_row_lse. Validation keeps batch * heads_q * q_tiles below 2^31, and what
/// packed sequences have of tiles.
AttentionParams constants_of(const AttentionProblem& problem, const KernelConfig& config);

/// How many tiles of `config` there can be of queries, and of keys, by all heads: of packed sequences each may end inside one.
std::int64_t most_query_tiles(const AttentionProblem& problem, const KernelConfig& config);
std::int64_t most_key_tiles(const AttentionProblem& problem, const KernelConfig& config);

/// What constants_of() leaves out.
void add_call(AttentionParams& params, const AttentionProblem& problem, const AttentionArgs& args);

Strides ref(const TensorStrides& strides);

/// The number that it means.
float value_of(EmptyRowLse lse);

/// How many query heads' tiles are interleaved; packed heads count as one. 1 without a mask: a head's keys
/// and values are read by one head's tiles in a row. Under a causal mask tiles differ in length, and what
/// counts is that the last ones to start are short: equal sections, whole query groups of them, of at most 64
/// heads for main loop 80, and for 90, which is fast enough to wait for memory, of what L2 holds, 16 to 32
/// heads (docs/kernel-notes.md). With varlen, heads of one sequence.
int heads_per_section(const AttentionProblem& problem, const KernelConfig& config);

/// |scale| * log2(e) as a normal, finite number: a scale of 0 gives uniform attention without 0 * inf.
float scale_log2(float scale);

}  // namespace fa2
