// Q, K, V and O of a call as TMA sees them.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <operation/operands/operands.h>

#include <templates/attention/common/params.cuh>

namespace fa2 {

/// Fills in params.q, k, v and o: boxes of 64 query rows (config.packed_heads heads' together) and of
/// config.tile_n keys, as tile/tma_copy.cuh takes them. The current device's. `operands` are valid for
/// `problem`, which has at least one query and RowAlignment::bytes16.
void fill_tensor_maps(const AttentionProblem& problem, const KernelConfig& config, OperandList operands,
                      AttentionParamsSm90& params);

/// Fills in those of a backward: boxes of 64 rows of K, V, dK and dV and of config.tile_n rows of Q and dO; with varlen of rows
/// that end with a sequence. `operands` are a backward's, and `problem` has at least one key.
void fill_tensor_maps(const AttentionProblem& problem, const KernelConfig& config, OperandList operands,
                      BackwardParamsSm90& params);

}  // namespace fa2
