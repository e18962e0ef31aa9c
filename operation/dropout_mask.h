// The launch that writes dropout's mask.
#pragma once

#include <fa2/args.h>
#include <generator/kernel_spec.h>
#include <operation/violations.h>
#include <runtime/kernel.h>

#include <cstdint>

namespace fa2 {

/// Its kernel, which serves every problem.
KernelSpec dropout_mask_spec(const Arch& arch);

/// What is wrong with the numbers of a valid problem's dropout, and with where the mask shall lie.
Violations violations_of_dropout_mask(const AttentionProblem& problem, const Dropout& dropout,
                                      const std::uint8_t* mask);

/// Of a normalized problem with at least one pair of a query and a key, in the current context.
void launch_dropout_mask(const Kernel& kernel, const AttentionProblem& problem, const Dropout& dropout,
                         std::uint8_t* mask, Stream stream);

}  // namespace fa2
