// Tables of lengths: host vectors, one block of device memory, and the fields of a problem.
#include <operation/rules/check_sequences.h>
#include <tools/sequence_tables.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace fa2::tools {
namespace {

using Table = std::vector<std::int32_t>;

/// Calls table(values, argument, is_used) for each table, in order. A side without rows has no sequence
/// offsets.
template <class Visitor>
void visit(const SequenceTables& tables, const AttentionProblem& p, AttentionArgs& args,
           const Visitor& table) {
  table(tables.cu_seqlens_q, args.cu_seqlens_q, p.total_q > 0);
  table(tables.cu_seqlens_k, args.cu_seqlens_k, p.total_k > 0);
  table(tables.seqused_q, args.seqused_q, p.varlen);
  table(tables.seqused_k, args.seqused_k, p.varlen);
  table(tables.page_table, args.page_table, p.page_size > 0);
  args.page_table_stride = p.page_size > 0 ? tables.pages_of_row : 0;
}

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();  // rows per page

/// Returns the longest sequence; all rows if they are batched.
std::int64_t longest_of(const Table& borders, std::int64_t rows) {
  if (borders.empty()) return rows;
  std::int64_t longest = 0;
  for (std::size_t b = 1; b < borders.size(); ++b)
    longest = std::max(longest, std::int64_t{borders[b]} - borders[b - 1]);
  return std::min(longest, rows);
}

}  // namespace

std::vector<SequenceCount> SequenceTables::counts() const {
  std::vector<SequenceCount> all;
  const auto add = [&](const char* name, const Table& table, std::int64_t borders) {
    if (!table.empty()) all.push_back({name, static_cast<std::int64_t>(table.size()) - borders});
  };
  add("cu_seqlens_q", cu_seqlens_q, 1);
  add("cu_seqlens_k", cu_seqlens_k, 1);
  add("seqused_q", seqused_q, 0);
  add("seqused_k", seqused_k, 0);
  if (!page_table.empty())
    all.push_back({"page_table", static_cast<std::int64_t>(page_table.size()) / pages_of_row});
  return all;
}

std::optional<SequenceCount> SequenceTables::count() const {
  const std::vector<SequenceCount> all = counts();
  return all.empty() ? std::nullopt : std::optional(all.front());
}

AttentionArgs SequenceTables::pointers(const AttentionProblem& problem) const {
  AttentionArgs args;
  visit(*this, problem, args, [](const Table& values, const std::int32_t*& argument, bool is_used) {
    if (is_used && !values.empty()) argument = values.data();
  });
  return args;
}

void set_lengths(AttentionProblem& problem, const SequenceTables& tables, std::int64_t rows_q,
                 std::int64_t rows_k) {
  problem.varlen = tables.count().has_value();
  problem.total_q = tables.cu_seqlens_q.empty() ? 0 : rows_q;
  problem.total_k = tables.cu_seqlens_k.empty() ? 0 : rows_k;
  problem.seqlen_q = longest_of(tables.cu_seqlens_q, rows_q);
  problem.seqlen_k = longest_of(tables.cu_seqlens_k, rows_k);
  if (tables.page_table.empty()) return;
  problem.page_size = static_cast<std::int32_t>(std::min<std::int64_t>(rows_k, kMostRows));
  problem.seqlen_k = tables.pages_of_row * rows_k;
}

void require_sound(const SequenceTables& tables, const AttentionProblem& problem) {
  std::vector<Violation> found = violations_of({.name = "q",
                                                .total = problem.total_q,
                                                .longest = problem.seqlen_q,
                                                .cu_seqlens = tables.cu_seqlens_q,
                                                .seqused = tables.seqused_q});
  std::ranges::move(violations_of({.name = "k",
                                   .total = problem.total_k,
                                   .longest = problem.seqlen_k,
                                   .cu_seqlens = tables.cu_seqlens_k,
                                   .seqused = tables.seqused_k}),
                    std::back_inserter(found));
  if (!tables.page_table.empty()) {
    const auto row = [&](std::int64_t b, std::int64_t count) {
      const auto first = tables.page_table.begin() + b * tables.pages_of_row;
      return Table(first, first + count);
    };
    std::ranges::move(violations_of_pages(problem, tables.seqused_k, row), std::back_inserter(found));
  }
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

DeviceTables::DeviceTables(const SequenceTables& tables) : host_(tables), memory_(0) {
  Table all;
  for (const Table* table :
       {&host_.cu_seqlens_q, &host_.cu_seqlens_k, &host_.seqused_q, &host_.seqused_k, &host_.page_table})
    all.insert(all.end(), table->begin(), table->end());
  memory_ = DeviceBuffer(all.size() * sizeof all[0]);
  memory_.upload(all.data(), memory_.size());
}

void DeviceTables::add_to(AttentionArgs& args, const AttentionProblem& problem) const {
  const auto* next = static_cast<const std::int32_t*>(memory_.data());
  visit(host_, problem, args, [&](const Table& values, const std::int32_t*& argument, bool is_used) {
    if (is_used && !values.empty()) argument = next;
    next += values.size();
  });
}

}  // namespace fa2::tools
