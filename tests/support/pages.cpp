// Calls with paged K and V.
#include "pages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace fa2::test {
namespace {

/// Returns the number of table entries of sequence `b`.
std::int64_t pages_of(const AttentionProblem& p, const Lengths& lengths, std::size_t b) {
  return (lengths.k[b] + p.page_size - 1) / p.page_size;
}

}  // namespace

AttentionProblem with_pages(AttentionProblem problem, const Lengths& lengths, Packing packing,
                            int page_size) {
  problem = with_lengths(problem, lengths, packing);
  problem.page_size = page_size;
  problem.page_count = 3;
  for (std::size_t b = 0; b < lengths.k.size(); ++b) problem.page_count += pages_of(problem, lengths, b);
  return problem;
}

void set_pages(GuardedCall& call, const Lengths& lengths, unsigned seed) {
  const AttentionProblem& p = call.problem;
  constexpr auto kLargest = std::numeric_limits<std::int32_t>::max();
  const std::int32_t kNoPages[] = {-1, static_cast<std::int32_t>(p.page_count), -kLargest, kLargest};
  std::vector<std::int32_t> pages(static_cast<std::size_t>(p.page_count));
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(seed));
  call.tables.page_table.assign(static_cast<std::size_t>(p.batch * call.args.page_table_stride), kLargest);
  std::size_t next = 0;
  for (std::size_t b = 0; b < lengths.k.size(); ++b) {
    const auto row = static_cast<std::ptrdiff_t>(b) * call.args.page_table_stride;
    for (std::int64_t i = 0; i < pages_of(p, lengths, b); ++i) {
      const bool is_missing = p.missing_pages && (static_cast<std::int64_t>(b) + i) % 3 == 0;
      call.tables.page_table[static_cast<std::size_t>(row + i)] =
          is_missing ? kNoPages[i % std::size(kNoPages)] : pages[next++];
    }
  }
}

void poison_pages(GuardedCall& call) {
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  const std::vector<reference::Sequence> sequences = call.sequences();
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    const AttentionProblem alone = reference::problem_of(call.problem, sequences[b]);
    for (std::int64_t j = 0; j < alone.seqlen_k; ++j) {
      bool is_seen = false;
      for (std::int64_t i = 0; i < alone.seqlen_q; ++i) is_seen |= reference::is_visible(alone, i, j);
      const std::int64_t entry =
          static_cast<std::int64_t>(b) * call.args.page_table_stride + j / call.problem.page_size;
      if (is_seen)
        seen.insert({call.tables.page_table[static_cast<std::size_t>(entry)], j % call.problem.page_size});
    }
  }
  for (std::int64_t page = 0; page < call.problem.page_count; ++page) {
    for (std::int64_t row = 0; row < call.problem.page_size; ++row) {
      if (seen.contains({page, row})) continue;
      poison(call.k, {page, row, 1});
      poison(call.v, {page, row, 1});
    }
  }
}

GuardedCall paged_call(const AttentionProblem& problem, const Lengths& lengths, Packing packing,
                       int page_size, MakeLayout layout) {
  const AttentionProblem p = with_pages(problem, lengths, packing, page_size);
  GuardedCall call(p, layouts_of(p, layout));
  set_lengths(call, lengths, packing);
  set_pages(call, lengths, 5);
  poison_pages(call);
  call.upload();
  return call;
}

}  // namespace fa2::test
