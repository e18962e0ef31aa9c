// Plans that put messages into memory of other ranks.
#pragma once

#include <operation/operands/operands.h>
#include <planning/plan.h>
#include <runtime/kernel.h>

#include <memory>
#include <templates/attention/rows/put_params.cuh>

namespace fa2 {

/// Returns the plan of one exchange, which all ranks must run together. `params`: what this rank sends, and its flags.
Plan plan_put(const PutParams& params, std::shared_ptr<const Kernel> kernel);

}  // namespace fa2
