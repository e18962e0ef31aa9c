// Pieces of queries on the host: the rules of their numbers, positions and their inverse, visible rows, parameters.
#include <doctest/doctest.h>
#include <fa2/context.h>
#include <fa2/score_text.h>
#include <generator/kernel_spec.h>
#include <generator/visible_keys.h>
#include <operation/operands/operands.h>
#include <operation/rules/check_sequences.h>
#include <operation/rules/validate.h>
#include <planning/attention_params.h>

#include <cstdint>
#include <string>
#include <templates/attention/common/query_positions.cuh>
#include <vector>

using namespace fa2;

namespace {

AttentionProblem problem() {
  AttentionProblem p;
  p.head_dim = 64;
  p.mask = MaskKind::causal_bottom_right;
  p.seqlen_q = p.seqlen_k = 64;
  p.query_pieces = true;
  return p.normalized();
}

std::string joined(const std::vector<Violation>& found) {
  std::string text;
  for (const Violation& violation : found) text += (text.empty() ? "" : "; ") + to_string(violation);
  return text;
}

/// Returns what is wrong with a call's pieces.
std::string broken(const AttentionProblem& p, const QueryPieces& pieces) {
  std::vector<std::uint16_t> tensors(4 * 64 * 64);
  AttentionArgs args =
      bshd_args(p, tensors.data(), tensors.data(), tensors.data(), tensors.data() + 3 * 64 * 64);
  args.query_pieces = pieces;
  return joined(violations_of({p, {RowAlignment::element}}, args));
}

}  // namespace

TEST_CASE("query pieces: numbers out of range are rejected, all at once") {
  CHECK(broken(problem(), {32, 0, 32}).empty());
  CHECK(broken(problem(), {0, -(1 << 29), (1 << 30) - 64}).empty());
  CHECK(broken(problem(), {64, 7, 7}).empty());
  CHECK(broken(problem(), {65, 0, 0}) == "query_pieces.split = 65, must be in 0..64, the queries");
  CHECK(broken(problem(), {-1, 0, 0}) == "query_pieces.split = -1, must be in 0..64, the queries");
  CHECK(broken(problem(), {0, 5, 4}) == "query_pieces.second = 4, must be in 5..1073741760, from first on");
  CHECK(
      broken(problem(), {70, -(1 << 30), 1 << 30}) ==
      "query_pieces.split = 70, must be in 0..64, the queries; query_pieces.first = -1073741824, must be in "
      "-536870912..1073741760; query_pieces.second = 1073741824, must be in -1073741824..1073741760, from "
      "first on");
  AttentionProblem without = problem();
  without.query_pieces = false;
  CHECK(broken(without, {1, 0, 0}) ==
        "query_pieces = given, must be as it is by default, or the problem's query_pieces true");
  CHECK(broken(without, {}).empty());
}

TEST_CASE("query pieces: with dropout they begin at multiples of 16") {
  AttentionProblem p = problem();
  p.dropout = true, p.seqlen_q = 60;
  CHECK(broken(p, {16, -32, 48}).empty());
  CHECK(broken(p, {60, 16, 16}).empty());
  CHECK(broken(p, {8, 1, 33}) ==
        "query_pieces.split = 8, must be in 0..60, the queries, and a multiple of 16 with dropout; "
        "query_pieces.first = "
        "1, must be in -536870912..1073741764, and a multiple of 16 with dropout; query_pieces.second = 33, "
        "must be in "
        "1..1073741764, from first on, and a multiple of 16 with dropout");
}

TEST_CASE("query pieces: a table goes with varlen, numbers without") {
  const std::int32_t table[3] = {};
  CHECK(broken(problem(), {0, 0, 0, table})
            .starts_with("query_pieces.table = given, must be null, or the problem's varlen"));
  AttentionProblem p = problem();
  p.varlen = true;
  CHECK(broken(p, {0, 0, 0, table}).empty());
  CHECK(broken(p, {}) == "query_pieces.table = null, must point to the tensor: it has elements");
  CHECK(broken(p, {1, 2, 3, table})
            .starts_with("query_pieces.split, first and second = 1, 2 and 3, must be 0 with varlen"));
}

TEST_CASE("query pieces: problems that have no positions, or too many, are rejected") {
  CHECK(violations_of(problem()).empty());
  AttentionProblem p = problem();
  p.mask = MaskKind::causal_top_left;
  CHECK(joined(violations_of(p)) ==
        "mask = causal_top_left, must be causal_bottom_right or none with query_pieces");
  p = problem();
  p.seqlen_k = 1 << 30, p.window_left = 1 << 30;
  CHECK(joined(violations_of(p)) ==
        "seqlen_k = 1073741824, must be below 1073741824 with query_pieces; window_left = "
        "1073741824, must be below 1073741824 with query_pieces");
  p = problem();
  p.score_text = make_score_text(
      {.bias = "return tile(at);", .captures = {{"tile", CaptureType::f16, CaptureSpec::kPerScore}}});
  CHECK(joined(violations_of(p)).starts_with("query_pieces = true, must be false: score_text has a capture"));
}

TEST_CASE("query pieces: the queries before a position are the inverse of positions") {
  for (const QueryPositions at : {QueryPositions{10, 5, 40}, {0, 0, 7}, {20, -3, -3}, {20, -8, 100}}) {
    for (int position = -30; position < 150; ++position) {
      int before = 0;
      while (before < 20 && at.of(before) < position) ++before;
      const int found = at.before(position);
      CHECK((found < 0 ? 0 : found > 20 ? 20 : found) == before);
    }
  }
}

TEST_CASE("query pieces: visible rows lie between the first and the last query's") {
  AttentionProblem p = problem();
  p.seqlen_q = 40, p.seqlen_k = 200;
  const auto rows = [&](const QueryPieces& pieces) {
    const VisibleRows of = visible_rows(p, pieces);
    return std::pair(of.first, of.count);
  };
  CHECK(rows({20, 0, 60}) == std::pair<std::int64_t, std::int64_t>(0, 100));
  p.window_left = 16;
  CHECK(rows({20, 50, 80}) == std::pair<std::int64_t, std::int64_t>(34, 86));
  CHECK(rows({20, 500, 800}) == std::pair<std::int64_t, std::int64_t>(199, 1));
  p.window_left.reset(), p.attention_chunk = 32;
  CHECK(rows({20, 40, 41}) == std::pair<std::int64_t, std::int64_t>(32, 49));
  p.query_pieces = false;
  CHECK(rows({}) == std::pair<std::int64_t, std::int64_t>(160, 40));
}

TEST_CASE("query pieces: only the presence specialises a kernel, and only kernels of such problems") {
  AttentionProblem p = problem();
  CHECK(to_string(traits_of({p, {}})) == "f16_d64_causal_bottom_right_query_pieces");
  p.query_pieces = false;
  CHECK(to_string(traits_of({p, {}})) == "f16_d64_causal_bottom_right");
}
