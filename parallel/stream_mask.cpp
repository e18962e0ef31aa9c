// Sums of bounds that are linear up to a document's border and constant from there on.
#include <fmt/format.h>
#include <parallel/chunks.h>
#include <parallel/request_check.h>
#include <parallel/stream_mask.h>

#include <algorithm>

namespace fa2 {
namespace {

/// More than any distance of two tokens, and small enough to be added to one.
constexpr std::int64_t kUnbounded = std::int64_t{1} << 40;

void require_one_stream(const AttentionProblem& problem, const std::vector<std::int64_t>& cu_seqlens) {
  RequestCheck found;
  const auto equal = [&](const char* name, std::int64_t given, const char* other, std::int64_t expected) {
    if (given != expected)
      found.add(name, given,
                fmt::format("must equal {} = {}: queries and keys are the same tokens", other, expected));
  };
  equal("seqlen_k", problem.seqlen_k, "seqlen_q", problem.seqlen_q);
  if (!cu_seqlens.empty()) {
    equal("total_q", problem.total_q, "the last of cu_seqlens", cu_seqlens.back());
    equal("total_k", problem.total_k, "the last of cu_seqlens", cu_seqlens.back());
  }
  if (problem.varlen == cu_seqlens.empty())
    found.add("varlen", problem.varlen ? "true" : "false",
              "must be true if and only if there are documents: pass their cu_seqlens");
  if (problem.page_size != 0) found.add("page_size", problem.page_size, "must be 0: shards have no pages");
  found.require_none();
}

/// Returns the sum of min(c + offset, limit) over c of [begin, end).
std::int64_t sum_of_minima(const Slice& range, std::int64_t offset, std::int64_t limit) {
  const std::int64_t bend = std::clamp(limit - offset, range.begin, range.end);
  const std::int64_t count = bend - range.begin;
  return count * (range.begin + offset) + count * (count - 1) / 2 + (range.end - bend) * limit;
}

}  // namespace

StreamMask::StreamMask(const AttentionProblem& problem, const std::vector<std::int64_t>& cu_seqlens)
    : left_(std::min(problem.window_left.value_or(kUnbounded), kUnbounded)),
      right_(std::min(problem.window_right.value_or(kUnbounded), kUnbounded)) {
  require_one_stream(problem, cu_seqlens);
  const std::vector<std::int64_t> documents =
      cu_seqlens.empty() ? std::vector<std::int64_t>{0, problem.seqlen_q} : cu_seqlens;
  require_documents(documents);
  if (problem.mask != MaskKind::none) right_ = 0;
  const std::int64_t chunk = problem.attention_chunk.value_or(kUnbounded);
  borders_.push_back(0);
  for (const std::int64_t end : documents) {
    while (borders_.back() < end) borders_.push_back(std::min(borders_.back() + chunk, end));
  }
}

Slice StreamMask::document_of(std::int64_t token) const {
  const auto end = std::ranges::upper_bound(borders_, token);
  return {*(end - 1), *end};
}

std::vector<Slice> StreamMask::by_document(const Slice& tokens) const {
  std::vector<Slice> parts;
  for (std::int64_t begin = tokens.begin; begin < tokens.end; begin = parts.back().end)
    parts.push_back({begin, std::min(document_of(begin).end, tokens.end)});
  return parts;
}

Slice StreamMask::keys_of(const Slice& queries) const {
  const Slice document = document_of(queries.begin);
  return {std::max(document.begin, queries.begin - left_), std::min(document.end, queries.end + right_)};
}

std::int64_t StreamMask::pairs(const Slice& queries) const {
  std::int64_t sum = 0;
  for (const Slice& part : by_document(queries)) {
    const Slice document = document_of(part.begin);
    // A maximum is a minimum of negated numbers, whose order is reversed.
    sum += sum_of_minima(part, right_ + 1, document.end) +
           sum_of_minima({1 - part.end, 1 - part.begin}, left_, -document.begin);
  }
  return sum;
}

}  // namespace fa2
