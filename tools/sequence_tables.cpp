// Tables of lengths: host vectors, one block of device memory, and the fields of a problem.
#include <operation/rules/check_sequences.h>
#include <tools/sequence_tables.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

namespace fa2::tools {
namespace {

/// Calls row(index) for the row of `argument`; `index` is a std::integral_constant.
template <class Row>
void with_row(const std::int32_t* AttentionArgs::*argument, const Row& row) {
  each_index<AttentionArgs>([&](auto index) {
    constexpr const auto& candidate = row_at<index>(kRowsOf<AttentionArgs>);
    if constexpr (std::is_same_v<decltype(candidate.member), const std::int32_t * AttentionArgs::*>)
      if (candidate.member == argument) row(index);
  });
}

/// Points the arguments that the problem uses at given tables; the first lies at `next`, or each in its vector if that is null.
void point(const SequenceTables& tables, const AttentionProblem& p, AttentionArgs& args,
           const std::int32_t* next) {
  for (const TableMember& member : kTables) {
    const LengthTable& values = tables.*member.values;
    if (member.is_used(p) && !values.empty()) args.*member.argument = next != nullptr ? next : values.data();
    if (next != nullptr) next += values.size();
  }
  args.page_table_stride = p.page_size > 0 ? tables.pages_of_row : 0;
}

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();  // rows per page

/// Returns the longest sequence; all rows if they are batched.
std::int64_t longest_of(const LengthTable& borders, std::int64_t rows) {
  if (borders.empty()) return rows;
  std::int64_t longest = 0;
  for (std::size_t b = 1; b < borders.size(); ++b)
    longest = std::max(longest, std::int64_t{borders[b]} - borders[b - 1]);
  return std::min(longest, rows);
}

}  // namespace

const Tensor& TableMember::tensor() const {
  const Tensor* found = nullptr;
  with_row(argument, [&](auto row) {
    constexpr const char* name = row_at<row>(kRowsOf<AttentionArgs>).text.name;
    found = &kAttentionTable.tensors[static_cast<std::size_t>(kAttentionTable.tensor_index(name))];
  });
  return *found;
}

bool TableMember::is_used(const AttentionProblem& problem) const {
  bool used = false;
  with_row(argument, [&](auto row) { used = fa2::is_used<AttentionArgs, row>(problem); });
  return used;
}

std::vector<SequenceCount> SequenceTables::counts() const {
  std::vector<SequenceCount> all;
  for (const TableMember& member : kTables) {
    const Tensor& tensor = member.tensor();
    const auto entries = static_cast<std::int64_t>((this->*member.values).size());
    if (entries == 0) continue;
    const std::int64_t columns = tensor.forms[0].rank == 1 ? 1 : pages_of_row;
    all.push_back({tensor.text.name, entries / columns - tensor.forms[0].extents[0].plus});
  }
  return all;
}

std::optional<SequenceCount> SequenceTables::count() const {
  const std::vector<SequenceCount> all = counts();
  return all.empty() ? std::nullopt : std::optional(all.front());
}

AttentionArgs SequenceTables::pointers(const AttentionProblem& problem) const {
  AttentionArgs args;
  point(*this, problem, args, nullptr);
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
      return LengthTable(first, first + count);
    };
    std::ranges::move(violations_of_pages(problem, tables.seqused_k, row), std::back_inserter(found));
  }
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

DeviceTables::DeviceTables(const SequenceTables& tables) : host_(tables), memory_(0) {
  LengthTable all;
  for (const TableMember& member : kTables) {
    const LengthTable& values = host_.*member.values;
    all.insert(all.end(), values.begin(), values.end());
  }
  memory_ = DeviceBuffer(all.size() * sizeof all[0]);
  memory_.upload(all.data(), memory_.size());
}

void DeviceTables::add_to(AttentionArgs& args, const AttentionProblem& problem) const {
  point(host_, problem, args, static_cast<const std::int32_t*>(memory_.data()));
}

}  // namespace fa2::tools
