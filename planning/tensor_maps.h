// Tensor maps of a call, through which TMA loads and stores.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <fa2/score_text.h>
#include <operation/operands/operands.h>

#include <templates/attention/common/params.cuh>

namespace fa2 {

/// Sets params.q, k, v and o for the current device, in the boxes that tile/tma_copy.cuh expects: up to 64 query rows, as
/// params.attention.packing numbers them, and config.tile_n keys. `operands` must be valid for `problem`, with a query and
/// RowAlignment::bytes16. `pieces`: the call's.
void fill_tensor_maps(const AttentionProblem& problem, const KernelConfig& config, OperandList operands,
                      AttentionParamsSm90& params, const QueryPieces& pieces = {});

/// Sets the tensor maps of a backward: boxes of 64 rows of K, V, dK and dV, and of config.tile_n rows of Q and dO. With varlen,
/// rows end with their sequence. `operands` must be those of a backward, and `problem` must have a key.
void fill_tensor_maps(const AttentionProblem& problem, const KernelConfig& config, OperandList operands,
                      BackwardParamsSm90& params, const QueryPieces& pieces = {});

/// Returns the map of a capture with an element per score, in the boxes of StagedScores (attention/common/staged_scores.cuh): the
/// queries of a warpgroup's tile, in one group of keys. Entries and heads that share elements are one.
TensorMap map_of_scores(const KernelConfig& config, const CaptureSpec& spec, const ScoreCapture& capture);

}  // namespace fa2
