// Which keys queries see, compared with counts by the reference's is_visible(): every mask, kind of
// window and chunk.
#include <doctest/doctest.h>
#include <generator/head_packing.h>
#include <generator/kernel_spec.h>
#include <generator/visible_keys.h>
#include <planning/forward.h>
#include <planning/tensor_maps.h>
#include <planning/trials/trial_data.h>
#include <reference/attention_reference.h>
#include <runtime/device.h>
#include <runtime/tensor_map.h>
#include <tools/flops.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <templates/attention/common/params.cuh>
#include <utility>
#include <vector>

using namespace fa2;

namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 40;  // beyond any sequence
constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};

/// Returns square and other shapes, with rows that see nothing, and windows and chunks wider than the sequence.
std::vector<AttentionProblem> problems() {
  using Width = std::optional<std::int64_t>;
  std::vector<AttentionProblem> all;
  for (const MaskKind mask : kMasks) {
    for (const Width left : {Width{}, Width{0}, Width{1}, Width{3}, Width{50}, Width{kHuge}}) {
      for (const Width right : {Width{}, Width{0}, Width{2}, Width{50}, Width{kHuge}}) {
        for (const Width chunk : {Width{}, Width{1}, Width{3}, Width{4}, Width{kHuge}}) {
          for (const auto& [sq, sk] : {std::pair{6, 6}, {9, 4}, {4, 9}, {1, 12}, {12, 1}, {5, 0}, {13, 14}}) {
            AttentionProblem p{.head_dim = 64,
                               .mask = mask,
                               .window_left = left,
                               .window_right = right,
                               .attention_chunk = chunk};
            p.seqlen_q = sq;
            p.seqlen_k = sk;
            all.push_back(p.normalized());
          }
        }
      }
    }
  }
  return all;
}

/// Returns how many keys query `i` sees.
std::int64_t count_of(const AttentionProblem& p, std::int64_t i) {
  std::int64_t count = 0;
  for (std::int64_t j = 0; j < p.seqlen_k; ++j) count += reference::is_visible(p, i, j);
  return count;
}

std::int64_t pairs_of(const AttentionProblem& p) {
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < p.seqlen_q; ++i) pairs += count_of(p, i);
  return pairs;
}

bool sees_all(const AttentionProblem& p) {
  return pairs_of(p) == p.seqlen_q * p.seqlen_k;
}

AttentionProblem square(MaskKind mask, std::int64_t seqlen) {
  AttentionProblem p{.head_dim = 64, .head_dim_v = 32, .mask = mask, .batch = 2, .heads_q = 3};
  p.seqlen_q = p.seqlen_k = seqlen;
  return p.normalized();
}

/// Returns the description in `map`, as the interpreter's TMA reads it.
InterpretedTensorMap interpreted(const TensorMap& map) {
  InterpretedTensorMap bytes;
  std::memcpy(&bytes, &map, sizeof bytes);
  return bytes;
}

}  // namespace

TEST_CASE("visible keys: counts of pairs agree with the reference") {
  for (const AttentionProblem& p : problems()) {
    CAPTURE(to_string(p));
    CHECK(visible_pairs(p) == static_cast<double>(pairs_of(p)));
  }
}

TEST_CASE("visible keys: pieces of queries count as queries that lie evenly in their sequence") {
  for (AttentionProblem p : problems()) {
    p.seqlen_q = p.seqlen_k;
    const double whole = visible_pairs(p);
    p.query_pieces = true, p.seqlen_q = p.seqlen_k / 4;
    CAPTURE(to_string(p));
    const double share =
        p.seqlen_k == 0 ? 0 : static_cast<double>(p.seqlen_q) / static_cast<double>(p.seqlen_k);
    CHECK(visible_pairs(p) == doctest::Approx(share * whole));
  }
}

TEST_CASE("visible keys: the first and the last key that some query sees") {
  for (const AttentionProblem& p : problems()) {
    CAPTURE(to_string(p));
    std::int64_t first = p.seqlen_k, end = 0;
    for (std::int64_t i = 0; i < p.seqlen_q; ++i) {
      for (std::int64_t j = 0; j < p.seqlen_k; ++j) {
        if (!reference::is_visible(p, i, j)) continue;
        first = std::min(first, j);
        end = std::max(end, j + 1);
      }
    }
    const VisibleRows rows = visible_rows(p);
    CHECK(rows.first == (p.seqlen_k == 0 ? 0 : first));
    CHECK(rows.first + rows.count == end);
    CHECK(visible_keys(p) == rows.count);
  }
}

TEST_CASE("visible keys: the width of a window that is bounded on both sides, or of a chunk") {
  for (const AttentionProblem& p : problems()) {
    CAPTURE(to_string(p));
    const bool bounded = (p.window_left && (p.window_right || p.mask != MaskKind::none)) || p.attention_chunk;
    const auto width = window_width(p);
    REQUIRE(width.has_value() == bounded);
    if (!bounded) continue;
    for (std::int64_t i = 0; i < p.seqlen_q; ++i) CHECK(count_of(p, i) <= *width);
    AttentionProblem longer = p;
    longer.seqlen_q = longer.seqlen_k = 120;
    if (*width > 60) continue;
    if (!p.attention_chunk) CHECK(count_of(longer, 60) == *width);
    const double mean = *mean_width(p);
    const std::int64_t period = p.attention_chunk.value_or(1);
    std::int64_t seen = 0;
    for (std::int64_t i = 60; i < 60 + std::min<std::int64_t>(60, period); ++i) seen += count_of(longer, i);
    if (period <= 60) CHECK(static_cast<double>(seen) == mean * static_cast<double>(period));
  }
}

TEST_CASE("visible keys: a problem has edges if any query of any length misses a key") {
  for (const AttentionProblem& p : problems()) {
    CAPTURE(to_string(p));
    if (!has_edges(p)) CHECK(sees_all(p));
    CHECK(has_edges(p) == (p.mask != MaskKind::none || p.window_left || p.window_right || p.attention_chunk));
    CHECK(has_edges(traits_of({p, {}})) == has_edges(p));
  }
}

TEST_CASE("visible keys: if only the device knows the lengths, all rows, and the pairs of mean lengths") {
  for (AttentionProblem p : problems()) {
    CAPTURE(to_string(p));
    const double pairs = visible_pairs(p);
    const std::int64_t keys = visible_keys(p);
    p.varlen = true;
    p.batch = 4;
    CHECK(visible_rows(p).first == 0);
    CHECK(visible_rows(p).count == p.seqlen_k);
    CHECK(visible_pairs(p) == pairs);  // batched: each may be the longest
    CHECK(visible_keys(p) == keys);
    p.total_q = 4 * p.seqlen_q;
    p.total_k = 4 * p.seqlen_k;
    CHECK(visible_rows(p).first == 0);
    CHECK(visible_rows(p).count == 4 * p.seqlen_k);
    p.seqlen_q = p.seqlen_k = 1000;
    if (p.total_k == 0) continue;
    CHECK(visible_pairs(p) == pairs);
    CHECK(visible_keys(p) == keys);
  }
}

TEST_CASE("visible keys: if only the device knows the lengths, few queries see a whole chunk") {
  AttentionProblem p{.head_dim = 64, .attention_chunk = 100, .batch = 4, .seqlen_q = 1, .seqlen_k = 1001};
  CHECK(visible_keys(p) == 1);
  CHECK(visible_pairs(p) == 1);
  p.varlen = true;
  CHECK(visible_keys(p) == 100);
  CHECK(visible_pairs(p) == 100);
  p.seqlen_k = 60;  // less than a chunk
  CHECK(visible_keys(p) == 60);
  CHECK(visible_pairs(p) == 60);
  p.seqlen_q = p.seqlen_k = 250;  // many queries see every key
  CHECK(visible_keys(p) == 250);
  CHECK(visible_pairs(p) == 2 * 100 * 100 + 50 * 50);
}

TEST_CASE(
    "visible keys: with pages an entry's rows are a page's; the number of keys does not depend on the page "
    "size") {
  for (AttentionProblem p : problems()) {
    const double pairs = visible_pairs(p);
    const std::int64_t keys = visible_keys(p);
    p.varlen = true;
    p.page_count = 100;
    for (const int page_size : {1, 3, 16, 4096}) {
      p.page_size = page_size;
      CAPTURE(to_string(p));
      CHECK(visible_rows(p).first == 0);
      CHECK(visible_rows(p).count == page_size);
      CHECK(visible_pairs(p) == pairs);
      CHECK(visible_keys(p) == keys);
    }
  }
}

TEST_CASE("visible keys: FLOPs count a window's pairs, and half of a causal square") {
  const double one_pair = 2 * 3 * 2.0 * (64 + 32);
  for (const AttentionProblem& p : problems()) {
    CAPTURE(to_string(p));
    const bool half =
        p.mask != MaskKind::none && !p.window_left && !p.attention_chunk && p.seqlen_q == p.seqlen_k;
    const double pairs = half ? static_cast<double>(p.seqlen_q * p.seqlen_k) / 2 : visible_pairs(p);
    CHECK(tools::flops_of(p) == pairs * 2 * (64 + 64));
  }
  CHECK(tools::flops_of(square(MaskKind::none, 100)) == one_pair * 10000);
  CHECK(tools::flops_of(square(MaskKind::causal_bottom_right, 100)) == one_pair * 5000);
  AttentionProblem p = square(MaskKind::causal_bottom_right, 32768);
  p.window_left = 4095;
  CHECK(tools::flops_of(p) == one_pair * (4096.0 * 32768 - 4095.0 * 4096 / 2));
  p.window_left.reset(), p.attention_chunk = 8192;
  CHECK(tools::flops_of(p) == one_pair * 4 * (8192.0 * 8193 / 2));
  p.attention_chunk.reset(), p.window_left = 4095;
  p.softcap = p.alibi = p.sinks = true;  // these add nothing to the products
  CHECK(tools::flops_of(p) == one_pair * (4096.0 * 32768 - 4095.0 * 4096 / 2));
}

TEST_CASE("visible keys: a search shrinks a problem by its pairs, not by its square") {
  AttentionProblem p = square(MaskKind::causal_bottom_right, 65536);
  p.batch = 1, p.heads_q = p.heads_kv = 16;
  TrialLimits limits;
  limits.min_blocks = 4096;
  CHECK(within(limits, p) != p);
  p.window_left = 511;
  CHECK(within(limits, p) == p);
}

TEST_CASE("visible keys: the tensor maps of K and V begin with the first visible key") {
  const ScopedContext current(kInterpreterDevice);
  KernelConfig config;
  config.kernel = KernelId::forward_sm90;
  config.tile_m = 64;
  config.tile_n = 32;
  AttentionProblem p{.head_dim = 64, .batch = 2, .heads_q = 4, .heads_kv = 2};
  p.seqlen_q = 40;
  p.seqlen_k = 200;
  struct Case {
    MaskKind mask;
    std::optional<std::int64_t> left, right;
    std::int64_t first, count;
    std::optional<std::int64_t> chunk = {};
  };
  for (const Case& c :
       {Case{MaskKind::none, {}, {}, 0, 200}, Case{MaskKind::none, 30, {}, 130, 70},
        Case{MaskKind::none, 30, 5, 130, 70}, Case{MaskKind::causal_bottom_right, 0, {}, 160, 40},
        Case{MaskKind::causal_top_left, 30, {}, 0, 40}, Case{MaskKind::none, kHuge, {}, 0, 200},
        Case{MaskKind::causal_bottom_right, {}, {}, 150, 50, 50}, Case{MaskKind::none, 5, {}, 155, 45, 50},
        Case{MaskKind::causal_top_left, {}, {}, 0, 40, 16}, Case{MaskKind::none, {}, {}, 0, 200, kHuge}}) {
    p.mask = c.mask;
    p.window_left = c.left;
    p.window_right = c.right;
    p.attention_chunk = c.chunk;
    CAPTURE(to_string(p));
    std::vector<std::byte> memory(1 << 20);
    void* const tensor = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256);
    const AttentionArgs args = bshd_args(p, tensor, tensor, tensor, tensor);
    AttentionParamsSm90 params{};
    params.attention.packing = head_packing(p, config);
    fill_tensor_maps(p, config, operands_of(p, args), params);
    for (const TensorMap* map : {&params.k, &params.v}) {
      const InterpretedTensorMap seen = interpreted(*map);
      CHECK(seen.data == static_cast<std::byte*>(tensor) + c.first * args.k_strides.row * 2);
      CHECK(seen.size[1] == c.count);
    }
    CHECK(interpreted(params.q).data == tensor);
    CHECK(interpreted(params.q).size[2] == 40);
    const Step step = forward_step(p.normalized(), config, nullptr, 132);
    CHECK(step.constants.as<AttentionParamsSm90>().attention.first_key == c.first);
  }
}

TEST_CASE("visible queries: from the first to the last that see some key, or none") {
  for (const AttentionProblem& p : problems()) {
    for (std::int64_t first = 0; first < p.seqlen_k; first += 2) {
      const std::int64_t count = std::min<std::int64_t>(3, p.seqlen_k - first);
      std::int64_t begin = p.seqlen_q, end = 0;
      for (std::int64_t i = 0; i < p.seqlen_q; ++i) {
        for (std::int64_t j = first; j < first + count; ++j)
          if (reference::is_visible(p, i, j)) begin = std::min(begin, i), end = i + 1;
      }
      const VisibleRows queries = visible_queries(p, {first, count});
      INFO(to_string(p), ", keys from ", first);
      CHECK(queries.count == std::max<std::int64_t>(0, end - begin));
      if (end > 0) CHECK(queries.first == begin);
    }
  }
}

TEST_CASE("visible keys: the tensor maps of packed K and V hold the rows of all sequences") {
  const ScopedContext current(kInterpreterDevice);
  KernelConfig config;
  config.kernel = KernelId::forward_sm90;
  config.tile_m = 64;
  config.tile_n = 32;
  AttentionProblem p{.head_dim = 64, .window_left = 3, .varlen = true, .batch = 5, .heads_q = 4};
  p.seqlen_q = p.seqlen_k = 200;
  p.total_q = 300;
  p.total_k = 700;
  std::vector<std::byte> memory(1 << 20);
  void* const tensor = memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256);
  AttentionArgs args = bshd_args(p, tensor, tensor, tensor, tensor);
  args.q_strides.batch = args.k_strides.batch = -1;  // not used
  AttentionParamsSm90 params{};
  params.attention.packing = head_packing(p, config);
  fill_tensor_maps(p, config, operands_of(p, args), params);
  CHECK(interpreted(params.k).data == tensor);
  CHECK(interpreted(params.k).size[1] == 700);
  CHECK(interpreted(params.k).size[4] == 1);
  // V ends with a sequence. A row is the sum of two coordinates, and the first ends with the longest
  // sequence.
  const InterpretedTensorMap v = interpreted(params.v);
  CHECK(static_cast<std::byte*>(tensor) - v.data == 200 * v.stride[1]);
  CHECK(v.size[1] == 200);
  CHECK(v.size[2] == 701);
  CHECK(v.stride[1] == v.stride[2]);
  CHECK(v.size[4] == 1);
  CHECK(interpreted(params.q).size[2] == 300);
  CHECK(interpreted(params.o).size[2] == 300);
  p.float32_out = true;
  AttentionParamsSm90 of_floats{}, none{};
  of_floats.attention.packing = params.attention.packing;
  fill_tensor_maps(p, config, operands_of(p, args), of_floats);
  CHECK(std::memcmp(&of_floats.o, &none.o, sizeof none.o) == 0);
}
