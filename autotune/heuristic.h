// The configuration to use when nothing has been measured.
#pragma once

#include <core/arch.h>
#include <fa2/config.h>
#include <fa2/problem.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>

#include <string>
#include <vector>

namespace fa2 {

struct HeuristicChoice {
  KernelConfig config;
  std::string reason;  ///< one sentence
};

/// Best first, at least one, each valid: why_rejected() is empty for it. The later ones are for compilers
/// that spill on the earlier. Packed sequences count as batched ones of their mean length.
std::vector<HeuristicChoice> heuristic_choices(const PlannedProblem& problem, const Arch& arch);

/// Of the kernels that compute `pass`: those above, or backward_choices(). Empty where no kernel does.
std::vector<HeuristicChoice> heuristic_choices(const PlannedProblem& problem, const Arch& arch,
                                               KernelPass pass);

/// The first of the forward's.
HeuristicChoice heuristic(const PlannedProblem& problem, const Arch& arch);

/// Problems of the same traits: one, at least, for each first choice that
/// heuristic_choices() has for any of them, whatever its batch, heads and lengths.
std::vector<PlannedProblem> heuristic_cases(const PlannedProblem& problem, const Arch& arch);

/// Of a pass. No size chooses among the kernels of a backward's: the problem itself.
std::vector<PlannedProblem> heuristic_cases(const PlannedProblem& problem, const Arch& arch, KernelPass pass);

/// How long the heuristic's tables take `rows` query rows of a tile's heads for. How many key blocks a tile visits
/// decides, and a window leaves a query as many keys as a causal sequence of twice its width does on average.
std::int64_t table_length(const AttentionProblem& problem, std::int64_t rows);

/// Query heads of one key/value head to pack into tiles of main loop 90: as many as fill `tile_m` rows, 1
/// where the queries of one head do or heads do not share keys. A power of two that divides the group.
int packed_heads(const AttentionProblem& problem, int tile_m);

/// Rows of the largest tile of a kernel that packs heads.
inline constexpr int kMostPackedRows = 192;

/// Returns `config` with the packed heads that `problem` has in its tiles. The problem determines them: the heuristic, a
/// search and a tuning record all take them from here. Configs of kernels that pack none come back unchanged.
KernelConfig with_packed_heads(KernelConfig config, const AttentionProblem& problem);

}  // namespace fa2
