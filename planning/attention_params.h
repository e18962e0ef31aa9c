// Parameters of the attention kernels, from a problem and from a call.
#pragma once

#include <fa2/args.h>
#include <fa2/config.h>
#include <fa2/problem.h>

#include <cstdint>
#include <templates/attention/common/params.cuh>

namespace fa2 {

/// Returns the fields that every call has; add_call() adds the others. Validation keeps batch * heads_q * q_tiles below 2^31, and
/// the tiles of packed sequences too.
AttentionParams constants_of(const AttentionProblem& problem, const KernelConfig& config);

/// Returns an upper bound of the key tiles of all heads. Each packed sequence may end inside a tile.
std::int64_t most_key_tiles(const AttentionProblem& problem, const KernelConfig& config);

/// Adds the pointers, strides and scalars of a call.
void add_call(AttentionParams& params, const AttentionProblem& problem, const AttentionArgs& args);

Strides ref(const TensorStrides& strides);

/// Returns k_descale or v_descale of a call.
HeadFactors factors_of(const float* data, const TensorStrides& strides);

/// Returns +infinity or -infinity.
float value_of(EmptyRowLse lse);

/// Returns how many query heads have interleaved tiles; packed GQA heads count as one. Without a mask 1, so that consecutive tiles
/// read the same keys and values. Under a causal mask tiles differ in length, and the last ones to start must be short.
/// Therefore all sections are equal, and consist of whole query groups: at most 64 heads, or for a kernel with section_bytes,
/// which is fast enough to wait for memory, the 16 to 32 heads whose keys and values L2 holds (docs/kernel-notes.md). With
/// varlen, a section is of one sequence.
int heads_per_section(const AttentionProblem& problem, const KernelConfig& config);

/// Returns how a kernel groups heads. `heads`: of one batch entry. `tiles`: per head.
HeadSections head_sections(const AttentionProblem& problem, std::int64_t heads, std::int64_t per_section,
                           std::int64_t tiles);

/// Returns |scale| * log2(e) as a normal, finite number, so that a scale of 0 gives uniform attention without 0 * inf.
float scale_log2(float scale);

}  // namespace fa2
