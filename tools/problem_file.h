// Problems as JSON lines.
#pragma once

#include <generator/kernel_spec.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::tools {

/// A problem a line, with the fields that `fa2 bench --json` prints of one, and `row_alignment`:
///   {"dtype": "bf16", "head_dim": 128, "mask": "causal_bottom_right", "heads_q": 32, "seqlen_q": 4096, "seqlen_k": 4096}
/// What a line leaves out has its default; empty lines are passed over. Normalized, in the file's order.
/// @throws InvalidRequest listing what is wrong with every line; CacheError if the file cannot be read.
std::vector<PlannedProblem> read_problems(const std::filesystem::path& file);

/// The same of a text; messages call it `origin`.
std::vector<PlannedProblem> parse_problems(std::string_view text, const std::string& origin);

}  // namespace fa2::tools
