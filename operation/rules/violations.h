// Checks that rules of problems and of arguments share.
#pragma once

#include <core/enum_words.h>
#include <fa2/args.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <generator/key_value_format.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace fa2 {

using Violations = std::vector<Violation>;

/// Checks dropout's numbers. The operand checks look at the pointer to the state.
void check_dropout(Violations& found, const AttentionProblem& problem, const Dropout& dropout);

/// Checks where queries stand. FA2_CHECK=1 looks at a table.
void check_query_pieces(Violations& found, const AttentionProblem& problem, const QueryPieces& pieces);

/// Returns the rule that one of the numbers breaks: 0 for split, 1 for first, 2 for second; empty if it is right. `queries`: of the
/// sequence.
std::string query_piece_rule(const AttentionProblem& problem, const QueryPieces& pieces, std::int64_t queries,
                             int number);

/// Rejects a head dim that no kernel computes. `otherwise` ends the rule: ", or 0 for head_dim".
void check_head_dim(Violations& found, const char* field, std::int32_t dim, const HeadDims& dims,
                    const char* otherwise = "");

template <class Enum>
void check_enum(Violations& found, const char* field, Enum value) {
  if (!is_enumerator(value))
    found.push_back({field, fmt::format("{}", static_cast<int>(value)), rule_of<Enum>()});
}

/// Checks what a key and its value are in memory, for attention and for append(): see KeyValueFormat.
template <class Problem>
void check_key_value_format(Violations& found, const Problem& problem) {
  static const HeadDims dims = head_dims_of(KernelPass::forward, &KernelKind::head_dims),
                        dims_v = head_dims_of(KernelPass::forward, &KernelKind::head_dims_v);
  check_head_dim(found, "head_dim", problem.head_dim, dims);
  if (problem.head_dim_v != 0) {
    check_head_dim(found, "head_dim_v", problem.head_dim_v, dims_v, ", or 0 for head_dim");
  } else if (dims.contain(problem.head_dim)) {
    check_head_dim(found, "head_dim_v", problem.head_dim, dims_v, "; 0 stands for head_dim");
  }
  if (problem.kv_type != KvType::e4m3) return;
  for (const auto& [name, dim] :
       {std::pair{"head_dim", problem.head_dim}, {"head_dim_v", problem.head_dim_v}}) {
    if (dim % 16 != 0)
      found.push_back({name, fmt::format("{}", dim),
                       fmt::format("must be a multiple of 16 with kv_type {}", to_string(problem.kv_type))});
  }
}

/// Checks what KvType::ds_mla determines. `head_dim`: what K's must be.
template <class Problem>
void check_latent_rows(Violations& found, const Problem& p, std::int32_t head_dim) {
  if (p.kv_type != KvType::ds_mla) return;
  const auto expect = [&](const char* field, std::string value, const std::string& wanted) {
    if (value != wanted)
      found.push_back({field, std::move(value), fmt::format("must be {} with kv_type ds_mla", wanted)});
  };
  expect("dtype", std::string(to_string(p.dtype)), "bf16");
  expect("head_dim", fmt::format("{}", p.head_dim), fmt::format("{}", head_dim));
  expect("head_dim_v", fmt::format("{}", p.head_dim_v), fmt::format("{}", int{LatentRow::byte_cols}));
}

/// Checks all enumerations of a problem.
template <class Problem>
void check_enums(Violations& found, const Problem& problem) {
  each_row<Problem>([&](const auto& row) {
    using Value = std::remove_cvref_t<decltype(problem.*row.member)>;
    if constexpr (std::is_enum_v<Value>) check_enum(found, row.text.name, problem.*row.member);
  });
}

/// Returns whether the checks of arguments can count with the problem's sizes, even if the problem is invalid.
template <class Problem>
bool has_shapes(const Problem& problem) {
  bool fits = true;
  each_row<Problem>([&](const auto& row) {
    using Value = std::remove_cvref_t<decltype(problem.*row.member)>;
    if constexpr (std::is_integral_v<Value>) {
      const std::int64_t n{problem.*row.member};
      fits = fits && n >= 0 && n <= std::int64_t{1} << 32;
    }
  });
  return fits;
}

}  // namespace fa2
