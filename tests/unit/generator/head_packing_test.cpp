// How tiles number the queries of heads that share keys.
#include <doctest/doctest.h>
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>

#include <set>
#include <utility>

using namespace fa2;

namespace {

AttentionProblem problem(std::int64_t heads_q, std::int64_t heads_kv, std::int64_t queries) {
  return {.head_dim = 64, .heads_q = heads_q, .heads_kv = heads_kv, .seqlen_q = queries, .seqlen_k = 4096};
}

int packed(std::int64_t heads_q, std::int64_t heads_kv, std::int64_t queries, int tile_m = 64) {
  return head_packing(problem(heads_q, heads_kv, queries), tile_m).heads;
}

/// A row as kernels read it (templates/attention/common/sequence.cuh, RowMap).
struct TileRow {
  int query, head;
  bool is_filled;
};

TileRow row_of(const HeadPacking& packing, int row) {
  const int in_block = row & ((1 << packing.block_log2) - 1), query = in_block * packing.inverse >> 16;
  return {(row >> packing.block_log2) * packing.queries + query, in_block - query * packing.heads,
          query < packing.queries};
}

}  // namespace

TEST_CASE("head packing: heads that share keys share tiles if that makes fewer of them") {
  CHECK(packed(8, 8, 1) == 1);
  for (int group = 1; group <= kMostPackedHeads; ++group) CHECK(packed(group, 1, 1) == group);
  CHECK(packed(32, 8, 16) == 4);
  CHECK(packed(32, 8, 32) == 4);
  CHECK(packed(32, 8, 64) == 1);  // each head fills its tile
  CHECK(packed(32, 8, 64, 128) == 4);
  CHECK(packed(32, 8, 65) == 4);    // 5 tiles instead of 8
  CHECK(packed(32, 8, 1000) == 1);  // 63 instead of 64
  CHECK(packed(40, 8, 48) == 5);    // 4 instead of 5
  // Larger groups are packed in equal parts.
  CHECK(packed(256, 1, 1) == 128);
  CHECK(packed(129, 1, 1) == 43);
  CHECK(packed(131, 1, 1) == 1);
}

TEST_CASE("head packing: with dropout never, with batch_invariant always") {
  AttentionProblem p = problem(8, 1, 1);
  p.dropout = true;
  CHECK(head_packing(p, 64).heads == 1);
  p = problem(8, 1, 5000);
  p.batch_invariant = true;
  CHECK(head_packing(p, 64).heads == 8);
}

TEST_CASE("head packing: packed sequences count with their mean length") {
  AttentionProblem p = problem(32, 8, 1024);
  p.varlen = true;
  p.batch = 64;
  CHECK(head_packing(p, 64).heads == 1);
  p.total_q = 64;
  CHECK(head_packing(p, 64).heads == 4);
}

TEST_CASE("head packing: only forward kernels pack heads") {
  for (const KernelKind* kind : kernel_kinds()) {
    CAPTURE(kind->name());
    CHECK((head_packing(problem(8, 1, 1), kind->default_config).heads == 8) ==
          (kind->pass == KernelPass::forward));
  }
}

TEST_CASE(
    "head packing: every query and head has one row, in boxes of whole queries, and queries do not "
    "decrease") {
  for (int group = 1; group <= kMostPackedHeads; ++group) {
    CAPTURE(group);
    const HeadPacking packing = head_packing(problem(group, 1, 1), 64);
    CHECK(packing.box_heads * packing.queries <= 64);
    for (const int queries : {1, 2, 3, 7, 64, 65, 200}) {
      const int rows = packed_rows(packing, queries);
      std::set<std::pair<int, int>> found;
      int last = 0;
      for (int r = 0; r < rows; ++r) {
        const TileRow row = row_of(packing, r);
        CHECK(row.query >= last);
        CHECK(row.head < group);
        last = row.query;
        if (!row.is_filled) continue;
        CHECK(found.insert({row.query, row.head}).second);
        // The row of a box that TMA fills with this query and head.
        const TileRow first = row_of(packing, r / 64 * 64);
        CHECK(r % 64 == (row.query - first.query) * packing.box_heads + row.head - first.head);
      }
      CHECK(found.size() == static_cast<std::size_t>(queries * group));
      CHECK(last == queries - 1);
      CHECK(row_of(packing, rows - 1).is_filled);
    }
  }
}

TEST_CASE("head packing: tiles of packed sequences are bounded, whatever their lengths") {
  AttentionProblem p = problem(14, 2, 40);
  p.varlen = true;
  p.batch = 3;
  p.total_q = 50;
  const KernelConfig config{.tile_m = 64};
  const HeadPacking packing = head_packing(p, config);
  CHECK(packing.heads == 7);
  for (int first = 0; first <= 40; ++first) {
    for (int second = 0; second <= 40 && first + second <= 50; ++second) {
      std::int64_t tiles = 0;
      for (const int queries : {first, second, std::min(40, 50 - first - second)})
        tiles += 2 * ((packed_rows(packing, queries) + 63) / 64);
      CHECK(tiles <= most_query_tiles(p, config));
    }
  }
}
