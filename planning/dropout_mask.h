// The launch that writes dropout's mask.
#pragma once

#include <fa2/args.h>
#include <generator/kernel_spec.h>
#include <operation/operands/operands.h>
#include <operation/rules/violations.h>
#include <runtime/kernel.h>

#include <array>
#include <cstdint>

namespace fa2 {

/// Its kernel, which serves every problem.
KernelSpec dropout_mask_spec(const Arch& arch);

/// The mask and, if there is one, the state, of a problem with at least one pair of a query and a key.
std::array<Operand, 2> dropout_mask_operands(const AttentionProblem& problem, const Dropout& dropout,
                                             const std::uint8_t* mask);

/// What is wrong with the numbers of a valid problem's dropout, and with where the mask shall lie.
Violations violations_of_dropout_mask(const AttentionProblem& problem, const Dropout& dropout,
                                      const std::uint8_t* mask);

/// Of a normalized problem, in the current context.
void launch_dropout_mask(const Kernel& kernel, const AttentionProblem& problem, const Dropout& dropout,
                         std::uint8_t* mask, Stream stream);

}  // namespace fa2
