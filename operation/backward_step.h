// The launches of a backward: their grids and their parameters.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <generator/kernel_kind.h>
#include <operation/step.h>
#include <runtime/kernel.h>

#include <cstddef>
#include <memory>

namespace fa2 {

/// Of delta, float32 a row of Q and head: a multiple of kWorkspaceAlignment.
std::size_t delta_bytes(const AttentionProblem& problem);

/// Whether a pass of the backward has a tile.
bool has_tiles(const AttentionProblem& problem, KernelPass pass);

/// `problem` is valid for a backward and normalized, `config` of a pass that has tiles, and why_rejected() does not refuse
/// it. Parameters: BackwardParams. Its scratch is delta, at the beginning of the workspace.
Step backward_step(const AttentionProblem& problem, const KernelConfig& config,
                   std::shared_ptr<const Kernel> kernel);

}  // namespace fa2
