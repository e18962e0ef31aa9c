// Checks problems.
#include <core/arch.h>
#include <core/text.h>
#include <core/text_reads.h>
#include <fa2/context.h>
#include <fa2/score_text.h>
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <generator/key_value_format.h>
#include <operation/operands/operands.h>
#include <operation/rules/check_captures.h>
#include <operation/rules/validate.h>
#include <operation/rules/violations.h>

#include <optional>
#include <templates/attention/common/query_positions.cuh>
#include <utility>

namespace fa2 {
namespace {

constexpr std::int64_t kLongestSequence = (std::int64_t{1} << 31) - 1024;
constexpr std::int64_t kLargestGrid = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kSmallestTile = 16;

void check_number(Violations& found, const char* field, std::int64_t value, bool holds, const char* rule) {
  if (!holds) found.push_back({field, fmt::format("{}", value), rule});
}

/// Checks options. `prefix` precedes the names of their fields: "plans[1].".
void check_options(Violations& found, const std::string& prefix, const PlanOptions& options) {
  PlanOptions::visit(
      [&](const char* name, const auto& value) {
        if (!is_enumerator(value)) check_enum(found, (prefix + name).c_str(), value);
      },
      options);
}

bool is_seqlen(std::int64_t length) {
  return length >= 0 && length <= kLongestSequence;
}

void add_large_grid(Violations& found, const std::string& what, const std::string& value) {
  found.push_back(
      {what, value, "must be at most 2147483647, the largest grid of one launch; split the batch"});
}

void check_pages(Violations& found, const AttentionProblem& p) {
  check_number(found, "page_size", p.page_size, p.page_size >= 0, "must be at least 0");
  check_number(found, "missing_pages", p.missing_pages, !p.missing_pages || p.page_size > 0,
               "must be false, or page_size above 0: it is about entries of page_table");
  if (p.page_size <= 0)
    return check_number(found, "page_count", p.page_count, p.page_count == 0,
                        "must be 0, or page_size above 0");
  check_number(found, "page_count", p.page_count, p.page_count > 0 && is_seqlen(p.page_count),
               "must be in 1..2147482624 with pages");
  check_number(found, "page_size", p.page_size, p.varlen,
               "must be 0, or varlen true: the lengths of sequences are on the device");
  check_number(found, "total_k", p.total_k, p.total_k == 0,
               "must be 0 with pages: page_table says where keys lie");
}

/// Checks where V lies with KvType::ds_mla.
void check_latent_values(Violations& found, const AttentionProblem& p) {
  if (p.kv_type == KvType::ds_mla && !p.values_in_keys)
    found.push_back(
        {"values_in_keys", "false", "must be true with kv_type ds_mla: V is the first columns of K"});
}

/// Returns whether the texts, if they exist, capture a tensor with an element per score.
bool has_score_tiles(std::int64_t number) {
  try {
    return number != 0 && capture_per_score(number) != kNoCapture;
  } catch (const InvalidRequest&) {
    return false;
  }
}

/// Bounds what is added to positions, and rejects what has no meaning for two pieces.
void check_query_pieces_of(Violations& found, const AttentionProblem& p) {
  if (!p.query_pieces) return;
  if (p.mask == MaskKind::causal_top_left)
    found.push_back({"mask", "causal_top_left", "must be causal_bottom_right or none with query_pieces"});
  for (const auto& [name, size] : {std::pair{"seqlen_q", std::optional(p.seqlen_q)},
                                   {"seqlen_k", p.seqlen_k},
                                   {"window_left", p.window_left},
                                   {"window_right", p.window_right},
                                   {"attention_chunk", p.attention_chunk}})
    check_number(found, name, size.value_or(0), size.value_or(0) < kEndOfPositions,
                 "must be below 1073741824 with query_pieces");
  if (has_score_tiles(p.score_text))
    found.push_back(
        {"query_pieces", "true",
         "must be false: score_text has a capture with an element per score, by a query's number in "
         "the call; capture 4 dimensions, and read them at at.query"});
}

void check_score_text(Violations& found, std::int64_t number) {
  if (number == 0) return;
  try {
    score_texts(number);
  } catch (const InvalidRequest& unknown) {
    found.insert(found.end(), unknown.violations().begin(), unknown.violations().end());
  }
}

/// The side whose tiles a grid covers, queries or keys, and the names of its fields.
struct Side {
  const char* heads_name;
  char suffix;
  std::int64_t heads, length, total;
};

Side query_side(const AttentionProblem& p) {
  return {
      .heads_name = "heads_q", .suffix = 'q', .heads = p.heads_q, .length = p.seqlen_q, .total = p.total_q};
}
Side key_side(const AttentionProblem& p) {
  return {
      .heads_name = "heads_kv", .suffix = 'k', .heads = p.heads_kv, .length = p.seqlen_k, .total = p.total_k};
}

/// Bounds the tiles by whole tiles and one more per sequence, because each sequence may end inside a tile.
void check_packed_grid(Violations& found, std::int64_t batch, const Side& side) {
  const std::int64_t whole_tiles = side.total / kSmallestTile;
  if (batch <= kLargestGrid / side.heads - whole_tiles) return;
  add_large_grid(found, fmt::format("{} * (total_{} / 16 + batch)", side.heads_name, side.suffix),
                 fmt::format("{} * ({} + {})", side.heads, whole_tiles, batch));
}

void check_grid(Violations& found, std::int64_t batch, const Side& side) {
  if (batch <= 0 || side.heads < 1 || side.length == 0) return;  // nothing is launched
  if (!is_seqlen(side.length) || !is_seqlen(side.total)) return;
  if (side.total > 0) return check_packed_grid(found, batch, side);
  const std::int64_t tiles = (side.length + kSmallestTile - 1) / kSmallestTile;
  std::int64_t heads = 0, blocks = 0;
  const bool overflows =
      __builtin_mul_overflow(batch, side.heads, &heads) || __builtin_mul_overflow(heads, tiles, &blocks);
  if (!overflows && blocks <= kLargestGrid) return;
  add_large_grid(found, fmt::format("batch * {} * ceil(seqlen_{} / 16)", side.heads_name, side.suffix),
                 fmt::format("{} * {} * {}", batch, side.heads, tiles));
}

}  // namespace

void check_head_dim(Violations& found, const char* field, std::int32_t dim, const HeadDims& dims,
                    const char* otherwise) {
  if (!dims.contain(dim)) found.push_back({field, fmt::format("{}", dim), rule_of(dims) + otherwise});
}

std::vector<Violation> violations_of_backward(const AttentionProblem& problem, const Gradients& gradients) {
  const AttentionProblem p = problem.normalized();
  Violations found;
  check_number(found, "page_size", p.page_size, p.page_size == 0,
               "must be 0: gradients of pages are not computed");
  static const HeadDims dims = head_dims_of(KernelPass::dq, &KernelKind::head_dims),
                        dims_v = head_dims_of(KernelPass::dq, &KernelKind::head_dims_v);
  constexpr const char* kWider = ": gradients of wider heads are not computed";
  check_head_dim(found, "head_dim", p.head_dim, dims, kWider);
  check_head_dim(found, "head_dim_v", p.head_dim_v, dims_v, kWider);
  check_number(found, "values_in_keys", p.values_in_keys, !p.values_in_keys,
               "must be false: gradients of values in keys are not computed");
  if (p.kv_type != KvType::same)
    found.push_back({"kv_type", std::string(to_string(p.kv_type)),
                     "must be same: gradients of 8-bit keys and values are not computed"});
  check_number(found, "float32_out", p.float32_out, !p.float32_out,
               "must be false: gradients are computed from O of 16 bits");
  check_grid(found, p.batch, key_side(p));
  if (!is_any_wanted(gradients))
    found.push_back({"gradients", "none", "must be at least one of dq, dk, dv, d_sinks and d_captures"});
  each_gradient(gradients, [&](auto index, bool is_wanted) {
    constexpr const RowText& row = kCStruct<BackwardArgs>.members[index].text;
    if (is_wanted && !is_used<BackwardArgs, index>(problem))
      found.push_back(
          {row.name, "true", fmt::format("must be false, or the problem's {} true", row.used_if)});
  });
  check_capture_gradients(found, p, gradients);
  return found;
}

std::vector<Violation> violations_of(const AttentionProblem& problem) {
  const AttentionProblem p = problem.normalized();
  Violations found;
  check_enums(found, p);
  check_key_value_format(found, problem);
  check_latent_rows(found, p, LatentRow::cols);
  check_latent_values(found, p);
  check_score_text(found, p.score_text);
  check_number(found, "head_dim_v", p.head_dim_v, !p.values_in_keys || p.head_dim_v <= p.head_dim,
               "must be at most head_dim with values_in_keys: V is columns of K");
  check_number(found, "batch", p.batch, p.batch >= 0, "must be at least 0");
  check_number(found, "heads_q", p.heads_q, p.heads_q >= 1, "must be at least 1");
  const bool own_heads_kv = problem.heads_kv != 0;
  const bool divides = p.heads_kv >= 1 && (p.heads_q < 1 || p.heads_q % p.heads_kv == 0);
  if (own_heads_kv && !divides) {
    found.push_back(
        {"heads_kv", fmt::format("{}", p.heads_kv),
         fmt::format("must be at least 1 and divide heads_q = {}, or be 0 for heads_q", p.heads_q)});
  }
  check_number(found, "seqlen_q", p.seqlen_q, is_seqlen(p.seqlen_q), "must be in 0..2147482624");
  check_number(found, "seqlen_k", p.seqlen_k, is_seqlen(p.seqlen_k), "must be in 0..2147482624");
  for (const auto& [name, width] :
       {std::pair{"window_left", problem.window_left}, {"window_right", problem.window_right}}) {
    if (width) check_number(found, name, *width, *width >= 0, "must be at least 0, or absent for no bound");
  }
  if (p.attention_chunk)
    check_number(found, "attention_chunk", *p.attention_chunk, *p.attention_chunk >= 1,
                 "must be at least 1, or absent for one chunk");
  for (const auto& [name, total] : {std::pair{"total_q", p.total_q}, {"total_k", p.total_k}}) {
    check_number(found, name, total, is_seqlen(total), "must be in 0..2147482624");
    if (total > 0 && !p.varlen) check_number(found, name, total, false, "must be 0, or varlen true");
  }
  check_pages(found, p);
  check_query_pieces_of(found, p);
  check_number(found, "sm_margin", p.sm_margin, p.sm_margin >= 0,
               "must be at least 0, and less than the SMs of the device");
  check_grid(found, p.batch, query_side(p));
  return found;
}

std::vector<Violation> violations_of(const PlannedProblem& problem) {
  Violations found = violations_of(static_cast<const AttentionProblem&>(problem));
  check_options(found, "", problem);
  return found;
}

std::vector<Violation> violations_of_precompiled(const AttentionProblem& problem, bool backward) {
  Violations found = violations_of(problem);
  if (!found.empty() || !backward) return found;
  found = violations_of_backward(problem);
  for (Violation& violation : found) violation.rule += "; or precompile no backward";
  return found;
}

std::vector<Violation> violations_of(const std::vector<AttentionProblem>& problems,
                                     const PrecompileOptions& options,
                                     const std::vector<std::string>& archs) {
  Violations found;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    for (Violation violation : violations_of_precompiled(problems[i], options.backward)) {
      violation.field = fmt::format("problems[{}].{}", i, violation.field);
      found.push_back(std::move(violation));
    }
  }
  for (std::size_t i = 0; i < options.plans.size(); ++i)
    check_options(found, fmt::format("plans[{}].", i), options.plans[i]);
  for (std::size_t i = 0; i < archs.size(); ++i) {
    if (find_arch(archs[i]) != nullptr) continue;
    found.push_back(
        {fmt::format("archs[{}]", i), in_quotes(archs[i]), "must be one of " + known_arch_names()});
  }
  return found;
}

void require_valid(const PlannedProblem& problem) {
  Violations found = violations_of(problem);
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

}  // namespace fa2
