// Checks where the queries of a call stand.
#include <fmt/format.h>
#include <operation/rules/violations.h>

#include <templates/attention/common/query_positions.cuh>

namespace fa2 {
namespace {

/// Rejects what the problem would ignore: a table without varlen, or numbers with it. The operand checks find a missing table.
void check_form(Violations& found, const AttentionProblem& p, const QueryPieces& pieces) {
  const bool has_table = pieces.table != nullptr;
  const bool has_numbers = pieces.split != 0 || pieces.first != 0 || pieces.second != 0;
  if (has_table && !p.varlen)
    found.push_back({"query_pieces.table", "given",
                     "must be null, or the problem's varlen true: split, first and second say it"});
  if (p.varlen && has_numbers)
    found.push_back({"query_pieces.split, first and second",
                     fmt::format("{}, {} and {}", pieces.split, pieces.first, pieces.second),
                     "must be 0 with varlen: query_pieces.table has them"});
}

}  // namespace

std::string query_piece_rule(const AttentionProblem& p, const QueryPieces& pieces, std::int64_t queries,
                             int number) {
  constexpr std::int64_t kUnit = 16;  // one call of Philox serves 16 queries
  const std::int64_t end = kEndOfPositions - queries;
  const bool in_units = !p.dropout;
  const auto fits = [&](std::int64_t value) { return in_units || value % kUnit == 0; };
  const char* const unit = in_units ? "" : ", and a multiple of 16 with dropout";
  if (number == 0) {
    if (pieces.split >= 0 && pieces.split <= queries && (pieces.split == queries || fits(pieces.split)))
      return "";
    return fmt::format("must be in 0..{}, the queries{}", queries, unit);
  }
  if (number == 1) {
    if (pieces.first >= kLeastPosition && pieces.first <= end && fits(pieces.first)) return "";
    return fmt::format("must be in {}..{}{}", kLeastPosition, end, unit);
  }
  if (pieces.second >= pieces.first && pieces.second <= end && fits(pieces.second)) return "";
  return fmt::format("must be in {}..{}, from first on{}", pieces.first, end, unit);
}

void check_query_pieces(Violations& found, const AttentionProblem& p, const QueryPieces& pieces) {
  if (!p.query_pieces) {
    if (pieces.table != nullptr || pieces.split != 0 || pieces.first != 0 || pieces.second != 0)
      found.push_back(
          {"query_pieces", "given", "must be as it is by default, or the problem's query_pieces true"});
    return;
  }
  check_form(found, p, pieces);
  if (p.varlen) return;
  const std::int64_t numbers[] = {pieces.split, pieces.first, pieces.second};
  constexpr const char* kNames[] = {"query_pieces.split", "query_pieces.first", "query_pieces.second"};
  for (int i = 0; i < 3; ++i) {
    std::string rule = query_piece_rule(p, pieces, p.seqlen_q, i);
    if (!rule.empty()) found.push_back({kNames[i], fmt::format("{}", numbers[i]), std::move(rule)});
  }
}

}  // namespace fa2
