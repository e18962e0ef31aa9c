// Plans that add float32 gradients: dK and dV of several ranks, or dQ over the keys of several.
#pragma once

#include <fa2/args.h>
#include <operation/operands/operands.h>
#include <planning/plan.h>
#include <runtime/kernel.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace fa2 {

/// Sizes of one sum. Part 0 is the owner's, the others are added in their order. A sum of dQ takes the place of dK: `heads` are query heads,
/// and there is no dV.
struct SumProblem {
  DType dtype = DType::f16;  ///< of the sums
  std::int32_t head_dim = 0;
  std::int32_t head_dim_v = 0;
  std::int64_t heads = 0;    ///< of dK
  std::int64_t heads_v = 0;  ///< of dV
  std::int64_t entries = 0;
  std::int64_t rows = 0;          ///< sums per entry
  std::int64_t own_rows = 0;      ///< rows per entry of SumArgs::own
  std::int64_t arrival_rows = 0;  ///< rows per entry of SumArgs::arrivals
  std::int64_t parts = 1;
  bool float32_sums = false;  ///< sums are not rounded; `own` may then be their memory

  std::int64_t row_floats() const { return heads * head_dim + heads_v * head_dim_v; }
};

struct SumArgs {
  const float* own = nullptr;  ///< contiguous (entries, own_rows, row_floats()): dK of all heads, then dV
  const float* arrivals = nullptr;  ///< contiguous (entries, arrival_rows, row_floats())
  /// int32 (parts, rows) on the device: which row of `own` for part 0, which must have all, else of `arrivals`; -1: the part has none.
  const std::int32_t* table = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  TensorStrides dk_strides = {};
  TensorStrides dv_strides = {};
};

std::vector<Operand> operands_of(const SumProblem& problem, const SumArgs& args);

/// Returns the plan. The problem must not be empty.
Plan plan_sum(const SumProblem& problem, std::shared_ptr<const Kernel> kernel);

}  // namespace fa2
