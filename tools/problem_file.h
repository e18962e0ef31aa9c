// Problems as JSON lines.
#pragma once

#include <generator/kernel_spec.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::tools {

/// Reads one problem per line, with the fields that `fa2 bench --json` prints, and `row_alignment`:
///   {"dtype": "bf16", "head_dim": 128, "mask": "causal_bottom_right", "heads_q": 32, "seqlen_q": 4096,
///   "seqlen_k": 4096}
/// Texts of scores stand by content: "score_text": {"mask": "return at.key < 7;"}.
/// Missing fields have their defaults; empty lines are skipped. Problems are normalized and in the file's
/// order.
/// @throws InvalidRequest listing what is wrong with every line; CacheError if the file cannot be read.
std::vector<PlannedProblem> read_problems(const std::filesystem::path& file);

/// Parses a text like read_problems(). Messages name it `origin`.
std::vector<PlannedProblem> parse_problems(std::string_view text, const std::string& origin);

}  // namespace fa2::tools
