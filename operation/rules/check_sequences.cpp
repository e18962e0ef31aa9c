// Checks cu_seqlens, seqused and page tables.
#include <fmt/format.h>
#include <operation/rules/check_sequences.h>
#include <operation/rules/table_checks.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

namespace fa2 {
namespace {

/// Returns the rule that entry `i` of cu_seqlens breaks; empty if it is right.
std::string border_rule(const SequenceSide& side, std::size_t i) {
  const std::int64_t entry = side.cu_seqlens[i];
  if (entry < 0) return "must be at least 0";
  if (entry > side.total) return fmt::format("must be at most total_{} = {}", side.name, side.total);
  if (i == 0) return "";
  const std::int64_t before = side.cu_seqlens[i - 1];
  if (entry < before) return fmt::format("must be at least cu_seqlens_{}[{}] = {}", side.name, i - 1, before);
  if (side.seqused.empty() && entry - std::max<std::int64_t>(before, 0) > side.longest)
    return fmt::format("must be at most cu_seqlens_{0}[{1}] = {2} and seqlen_{0} = {3} together", side.name,
                       i - 1, before, side.longest);
  return "";
}

/// Returns the length of sequence `b` as kernels compute it, even from wrong offsets.
std::int64_t length_of(const SequenceSide& side, std::size_t b) {
  if (side.cu_seqlens.empty()) return side.longest;
  const std::int64_t begin = std::clamp<std::int64_t>(side.cu_seqlens[b], 0, side.total);
  const std::int64_t end = std::clamp<std::int64_t>(side.cu_seqlens[b + 1], begin, side.total);
  return std::min(end - begin, side.longest);
}

std::string used_rule(const SequenceSide& side, std::size_t b) {
  const std::int64_t length = length_of(side, b);
  if (side.seqused[b] >= 0 && side.seqused[b] <= length) return "";
  return fmt::format("must be in 0..{}, the length of its sequence", length);
}

/// Returns one violation per wrong number of the first sequence that has any. `table`: the call's, or empty.
Violations violations_of_query_pieces(const AttentionProblem& p, const SequenceSide& queries,
                                      std::span<const std::int32_t> table) {
  Violations found;
  for (std::size_t b = 0; 3 * b < table.size() && found.empty(); ++b) {
    const auto row = table.subspan(3 * b, 3);
    const std::int64_t length = length_of(queries, b),
                       used = queries.seqused.empty() ? length
                                                      : std::min<std::int64_t>(queries.seqused[b], length);
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string rule =
          query_piece_rule(p, {row[0], row[1], row[2]}, std::max<std::int64_t>(used, 0), int(i));
      if (!rule.empty())
        found.push_back(
            {fmt::format("query_pieces.table[{}][{}]", b, i), fmt::format("{}", row[i]), std::move(rule)});
    }
  }
  return found;
}

}  // namespace

std::vector<Violation> violations_of(const SequenceSide& side) {
  Violations found;
  check_table(found, fmt::format("cu_seqlens_{}", side.name), side.cu_seqlens,
              [&](std::size_t i) { return border_rule(side, i); });
  check_table(found, fmt::format("seqused_{}", side.name), side.seqused,
              [&](std::size_t b) { return used_rule(side, b); });
  return found;
}

std::vector<Violation> violations_of_pages(
    const AttentionProblem& p, std::span<const std::int32_t> used,
    const std::function<std::vector<std::int32_t>(std::int64_t b, std::int64_t count)>& entries) {
  Violations found;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t length =
        used.empty() ? p.seqlen_k
                     : std::clamp<std::int64_t>(used[static_cast<std::size_t>(b)], 0, p.seqlen_k);
    const auto pages = entries(b, (length + p.page_size - 1) / p.page_size);
    check_table(found, fmt::format("page_table[{}]", b), pages, [&](std::size_t i) {
      const bool exists = pages[i] >= 0 && pages[i] < p.page_count;
      return exists ? "" : fmt::format("must be in 0..{}: a page of K and V", p.page_count - 1);
    });
  }
  return found;
}

void require_sound_tables(const AttentionProblem& p, const AttentionArgs& args, int device, Stream stream) {
  if (!can_read_tables(device, stream)) return;
  Violations found;
  std::vector<std::int32_t> used;
  const std::vector<std::int32_t> pieces = copy_of(args.query_pieces.table, 3 * p.batch, device, stream);
  const auto check = [&](SequenceSide side, const std::int32_t* cu_seqlens, const std::int32_t* seqused) {
    const auto borders = copy_of(cu_seqlens, p.batch + 1, device, stream);
    used = copy_of(seqused, p.batch, device, stream);
    side.cu_seqlens = borders;
    side.seqused = used;
    std::ranges::move(violations_of(side), std::back_inserter(found));
    if (side.name == "q")
      std::ranges::move(violations_of_query_pieces(p, side, pieces), std::back_inserter(found));
  };
  check({.name = "q", .total = p.total_q, .longest = p.seqlen_q}, args.cu_seqlens_q, args.seqused_q);
  check({.name = "k", .total = p.total_k, .longest = p.seqlen_k}, args.cu_seqlens_k, args.seqused_k);
  if (args.page_table != nullptr && !p.missing_pages) {
    std::ranges::move(violations_of_pages(p, used,
                                          [&](std::int64_t b, std::int64_t count) {
                                            return copy_of(args.page_table + b * args.page_table_stride,
                                                           count, device, stream);
                                          }),
                      std::back_inserter(found));
  }
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

}  // namespace fa2
