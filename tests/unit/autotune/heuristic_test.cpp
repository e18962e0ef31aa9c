// The heuristic returns a valid config, and a reason, for every problem and GPU.
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <generator/config_space.h>
#include <generator/visible_keys.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <templates/attention/common/tile_schedule.cuh>
#include <vector>

using namespace fa2;

namespace {

PlannedProblem long_problem(int head_dim, std::int64_t seqlen = 32768) {
  PlannedProblem p({.head_dim = head_dim, .mask = MaskKind::causal_bottom_right, .heads_q = 16}, {});
  p.seqlen_q = p.seqlen_k = seqlen;
  return p.normalized();
}

/// CHECKs every arch, alignment, mask and length for one pair of head dims.
void check_head_dims(int head_dim, int head_dim_v) {
  for (const Arch& arch : known_archs()) {
    for (const RowAlignment alignment : {RowAlignment::bytes16, RowAlignment::element}) {
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
        for (const int seqlen : {1, 64, 512, 4096, 100000}) {
          PlannedProblem p{{.head_dim = head_dim, .head_dim_v = head_dim_v, .mask = mask}, {alignment}};
          p.seqlen_q = p.seqlen_k = seqlen;
          const HeuristicChoice choice = heuristic(p, arch);
          const std::string broken = why_rejected({traits_of(p), choice.config, arch}).value_or("");
          CHECK_MESSAGE(broken.empty(), to_string(p), " on ", std::string(arch.name), ": ", broken);
          CHECK_FALSE(choice.reason.empty());
        }
      }
    }
  }
}

std::vector<KernelConfig> choices_of(const AttentionProblem& p, const char* arch) {
  std::vector<KernelConfig> configs;
  for (const HeuristicChoice& choice : heuristic_choices({p, {}}, *find_arch(arch)))
    configs.push_back(choice.config);
  return configs;
}

std::vector<KernelConfig> of_kernel(KernelId kernel, std::vector<KernelConfig> configs) {
  std::erase_if(configs, [&](const KernelConfig& c) { return c.kernel != kernel; });
  return configs;
}

}  // namespace

TEST_CASE("heuristic: valid for every head dim") {
  for (int dim = 8; dim <= 256; dim += 8) check_head_dims(dim, dim);
}

TEST_CASE("heuristic: valid for unequal head dims") {
  std::vector<int> dims = {256};
  for (int dim = 8; dim < 256; dim += 24) dims.push_back(dim);
  for (const int dim : dims) {
    for (const int dim_v : dims) check_head_dims(dim, dim_v);
  }
}

TEST_CASE("heuristic: a window counts as a causal sequence of twice its width") {
  PlannedProblem p = long_problem(128);
  CHECK(table_length(p, 32768) == 32768);
  p.window_left = 511;
  CHECK(table_length(p, 32768) == 1024);
  CHECK(table_length(p, 64) == 64);
  p.mask = MaskKind::none;
  CHECK(table_length(p, 32768) == 32768);  // the part after the diagonal grows with the sequence
  p.window_right = 512;
  CHECK(table_length(p, 32768) == 2048);
  p.window_left.reset();
  CHECK(table_length(p, 32768) == 32768);
  p.window_left = p.window_right = std::numeric_limits<std::int64_t>::max();
  CHECK(table_length(p, 32768) == 32768);
  CHECK(table_length(AttentionProblem{.head_dim = 64, .seqlen_q = 7}, 7) == 7);
}

TEST_CASE(
    "heuristic: a chunk counts as a causal sequence of twice the keys that its queries see on average") {
  PlannedProblem p = long_problem(128);
  p.attention_chunk = 1024;
  CHECK(table_length(p, 32768) == 1025);
  CHECK(table_length(p, 64) == 64);
  CHECK(heuristic(p, *find_arch("sm_90a")).reason.find("with 1024 keys in the chunk") != std::string::npos);
  p.window_left = 0;
  CHECK(table_length(p, 32768) == 2);
  p.window_left.reset();
  p.mask = MaskKind::none;
  CHECK(table_length(p, 32768) == 2048);
  p.attention_chunk = std::numeric_limits<std::int64_t>::max();
  CHECK(table_length(p, 32768) == 32768);
}

TEST_CASE("heuristic: the number of KV blocks that a tile visits decides, whatever the sequence's length") {
  for (const Arch& arch : known_archs()) {
    for (const int dim : {64, 128, 256}) {
      for (const std::int64_t width : {512, 4096, 1 << 30}) {  // wider than tiles
        PlannedProblem windowed = long_problem(dim);
        windowed.window_left = width - 1;
        CAPTURE(to_string(windowed));
        CAPTURE(std::string(arch.name));
        PlannedProblem causal = long_problem(dim, std::min<std::int64_t>(2 * width, 32768));
        causal.batch = 32768 / causal.seqlen_q;  // as many tiles
        const HeuristicChoice choice = heuristic(windowed, arch);
        CHECK(choice.config.tile_m == heuristic(causal, arch).config.tile_m);
        CHECK(choice.config.tile_n == heuristic(causal, arch).config.tile_n);
        CHECK_FALSE(why_rejected({traits_of(windowed), choice.config, arch}).has_value());
        CHECK((choice.reason.find("keys in the window") != std::string::npos) == (2 * width < 32768));
      }
    }
  }
  // Otherwise the test would be vacuous.
  PlannedProblem narrow = long_problem(128), wide = long_problem(128);
  narrow.window_left = 511;
  wide.window_left = 8191;
  CHECK_FALSE(heuristic(narrow, *find_arch("sm_90a")).config == heuristic(wide, *find_arch("sm_90a")).config);
}

TEST_CASE("heuristic: batch_invariant has one config for every size, even if records exist") {
  for (const char* const name : {"sm_80", "sm_90a"}) {
    const Arch& arch = *find_arch(name);
    for (const int dim : {64, 128, 256}) {
      AttentionProblem p{
          .head_dim = dim, .varlen = true, .batch_invariant = true, .heads_q = 32, .heads_kv = 8};
      p.seqlen_q = p.seqlen_k = 1;
      const KernelConfig config = heuristic({p, {}}, arch).config;
      CHECK(splits_keys(config) == (arch.compute_capability == 90));
      for (const std::int64_t batch : {1, 7, 256}) {
        for (const std::int64_t queries : {1, 16, 65, 8192}) {
          p.batch = batch;
          p.seqlen_q = queries;
          p.seqlen_k = 2 * queries;
          p.total_q = queries % 2 == 0 ? batch * queries : 0;
          CHECK(heuristic({p, {}}, arch).config == config);
        }
      }
    }
  }
}

TEST_CASE("heuristic: few queries split the keys, unless there are many tiles of the same length") {
  const Arch& hopper = *find_arch("sm_90a");
  const auto shares_keys = [&](std::int64_t batch, std::int64_t queries, bool varlen = false) {
    AttentionProblem p{.head_dim = 128, .varlen = varlen, .batch = batch, .heads_q = 32, .heads_kv = 8};
    p.seqlen_q = queries;
    p.seqlen_k = 8192;
    return splits_keys(heuristic({p, {}}, hopper).config);
  };
  CHECK(shares_keys(1, 1));
  CHECK(shares_keys(6, 16));
  CHECK_FALSE(shares_keys(12, 1));  // 96 tiles read keys at the speed of memory
  CHECK(shares_keys(12, 1, true));
  CHECK(shares_keys(1, 65));  // 24 tiles of 128 rows
  CHECK(shares_keys(1, 256));
  CHECK_FALSE(shares_keys(1, 1024));  // 256 tiles of 128 rows: two full rounds
  CHECK(shares_keys(3, 65));
  CHECK_FALSE(shares_keys(16, 65));  // 384 tiles: blocks would read the keys of each sequence three times
  CHECK_FALSE(shares_keys(1, 2048));
  CHECK_FALSE(shares_keys(1, 8192));
  // With a narrow window, many queries see few keys and have many tiles.
  AttentionProblem narrow{.head_dim = 128, .window_left = 16, .window_right = 16};
  narrow.seqlen_q = narrow.seqlen_k = 8192;
  CHECK(heuristic({narrow, {}}, hopper).config.schedule == kDynamicPersistent);
}

TEST_CASE(
    "heuristic: forward_split for few queries: with few keys on Hopper, with any number on other GPUs") {
  AttentionProblem p{.head_dim = 128, .batch = 1, .heads_q = 32, .heads_kv = 8, .seqlen_q = 1};
  const auto config_of = [&](const char* arch, std::int64_t queries, std::int64_t keys) {
    p.seqlen_q = queries, p.seqlen_k = keys;
    return heuristic({p, {}}, *find_arch(arch)).config;
  };
  for (const std::int64_t keys : {1, 8192, 16384})
    CHECK(config_of("sm_90a", 1, keys).kernel == KernelId::forward_split);
  CHECK(config_of("sm_90a", 1, 65536).kernel == KernelId::forward_sm90);
  CHECK(config_of("sm_90a", 1, 8192).warps == 8);
  CHECK(config_of("sm_90a", 1, 16384).warps == 4);
  CHECK(config_of("sm_90a", 9, 8192).kernel == KernelId::forward_sm90);  // 36 rows
  for (const char* const arch : {"sm_80", "sm_89", "sm_120"}) {
    CAPTURE(arch);
    for (const std::int64_t keys : {1, 8192, 1 << 20})
      CHECK(config_of(arch, 1, keys).kernel == KernelId::forward_split);
    CHECK(config_of(arch, 4, 8192).tile_m == 16);
    CHECK(config_of(arch, 8, 8192).tile_m == 32);
    CHECK(config_of(arch, 33, 8192).kernel == KernelId::forward_sm80);
  }
  p.batch_invariant = true;  // many queries would be slow in a tile of few rows
  CHECK(config_of("sm_80", 1, 8192).kernel == KernelId::forward_sm80);
}

TEST_CASE("heuristic: 8-bit keys of up to 64 query rows a head are split, unless there are many heads") {
  const auto kernel_of = [](std::int64_t batch, std::int64_t queries, std::int32_t group, int page_size) {
    AttentionProblem p{.head_dim = 128, .varlen = true, .page_size = page_size, .kv_type = KvType::e4m3};
    p.batch = batch;
    p.heads_q = group * (p.heads_kv = 2);
    p.seqlen_q = queries;
    p.seqlen_k = 8192;
    p.page_count = page_size > 0 ? 1 : 0;
    return heuristic({p, {}}, *find_arch("sm_90a")).config.kernel;
  };
  for (const int page_size : {0, 16, 64}) {
    for (const std::int64_t batch : {1, 8, 63}) {
      CHECK(kernel_of(batch, 4, 8, page_size) == KernelId::forward_split);
      CHECK(kernel_of(batch, 4, 12, page_size) == KernelId::forward_split);
      CHECK(kernel_of(batch, 64, 1, page_size) == KernelId::forward_split);
    }
    CHECK(kernel_of(64, 4, 8, page_size) == KernelId::forward_split);
    CHECK(kernel_of(64, 4, 12, page_size) == KernelId::forward_sm80);
  }
}

TEST_CASE("heuristic: packed sequences count as batched ones of their mean length") {
  const Arch& arch = *find_arch("sm_90a");
  for (const int dim : {64, 128}) {
    for (const std::int64_t mean : {100, 1000, 10000}) {
      PlannedProblem packed = long_problem(dim, 100000);
      packed.varlen = true;
      packed.batch = 16;
      packed.total_q = packed.total_k = 16 * mean;
      CAPTURE(to_string(packed));
      const HeuristicChoice choice = heuristic(packed, arch);
      PlannedProblem batched = long_problem(dim, mean);
      batched.batch = packed.batch;
      CHECK(choice.config.tile_m == heuristic(batched, arch).config.tile_m);
      CHECK(choice.config.tile_n == heuristic(batched, arch).config.tile_n);
      CHECK(choice.reason.find(", mean seqlen_q " + std::to_string(mean) + ", ") != std::string::npos);
    }
  }
  PlannedProblem padded = long_problem(64, 1000);  // batched ones count with the longest length
  padded.varlen = true;
  CHECK(heuristic(padded, arch).config == heuristic(long_problem(64, 1000), arch).config);
  CHECK(heuristic(padded, arch).reason.find(", seqlen_q 1000, ") != std::string::npos);
}

TEST_CASE("heuristic: pages of any size are judged like contiguous keys") {
  std::mt19937 random(1);
  const auto one_of = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  const auto length = [&] {
    const auto octaves = random() % 18;
    return std::int64_t{1} + static_cast<std::int64_t>(random() % (2U << octaves));
  };
  int split = 0;
  for (int i = 0; i < 600; ++i) {
    AttentionProblem whole{.head_dim = one_of({64, 72, 128, 192, 256}), .varlen = true};
    whole.mask = random() % 2 == 0 ? MaskKind::none : MaskKind::causal_bottom_right;
    if (random() % 4 == 0) whole.window_left = length();
    if (random() % 4 == 0) whole.attention_chunk = 1 + length();
    whole.batch = one_of({1, 1, 2, 7, 64});
    whole.heads_kv = one_of({1, 2, 4, 8});
    whole.heads_q = whole.heads_kv * one_of({1, 2, 3, 4, 5, 7, 8, 12, 16});
    whole.seqlen_q = random() % 2 == 0 ? length() : one_of({1, 2, 16, 128, 512});
    whole.seqlen_k = length();
    AttentionProblem paged = whole;
    paged.page_size = one_of({16, 48, 64, 256, 1024});
    paged.page_count = 1000;
    for (const char* const arch : {"sm_80", "sm_90a"}) {
      CAPTURE(to_string(paged));
      CAPTURE(arch);
      // On Hopper, TMA comes first for paged keys, however few
      // (docs/measurements/2026-11-23-h200-few-queries).
      std::vector<KernelConfig> expected = choices_of(whole, arch);
      if (expected[0].kernel == KernelId::forward_split && std::string(arch) == "sm_90a")
        std::stable_partition(expected.begin(), expected.end(),
                              [](const KernelConfig& c) { return c.kernel == KernelId::forward_sm90; });
      const std::vector<KernelConfig> choices = choices_of(paged, arch);
      // KV blocks may be smaller: 80 keys come from pages in small pieces.
      CHECK(choices.at(0).kernel == expected.at(0).kernel);
      CHECK(splits_keys(choices.at(0)) == splits_keys(expected.at(0)));
      CHECK(of_kernel(KernelId::forward_split, choices) == of_kernel(KernelId::forward_split, expected));
      split += choices[0].kernel == KernelId::forward_sm90 && splits_keys(choices[0]);
    }
  }
  CHECK(split > 50);  // otherwise the test would say little
}

TEST_CASE("heuristic: a prefill chunk over pages splits its keys if it sees many") {
  AttentionProblem p{.head_dim = 128, .varlen = true, .heads_q = 32, .heads_kv = 8, .seqlen_q = 128};
  p.seqlen_k = 32768;
  for (const int page_size : {0, 1, 16, 24, 256}) {
    p.page_size = page_size;
    p.page_count = page_size > 0 ? 40000 : 0;
    CAPTURE(page_size);
    p.window_left.reset();
    const KernelConfig config = choices_of(p, "sm_90a").at(0);
    CHECK(splits_keys(config));
    CHECK(config.tile_m == 128);
    p.window_left = 300;  // 428 keys: a merge takes longer
    CHECK_FALSE(splits_keys(choices_of(p, "sm_90a").at(0)));
  }
}

TEST_CASE("heuristic: the precompiled cases include the prefill chunks of every mask") {
  const Arch& hopper = *find_arch("sm_90a");
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
    for (const int dim : {64, 72, 128, 256}) {
      PlannedProblem p({.head_dim = dim, .mask = mask, .seqlen_q = 5301, .seqlen_k = 257947}, {});
      p = p.normalized();
      CAPTURE(to_string(p));
      const KernelConfig config = heuristic(p, hopper).config;
      CHECK(splits_keys(config));
      CHECK(std::ranges::any_of(heuristic_cases(p, hopper), [&](const PlannedProblem& other) {
        return heuristic(other, hopper).config == config;
      }));
    }
  }
}

TEST_CASE("heuristic: on Hopper dQ of up to 64 columns is added in bulk where a key tile has many steps") {
  const Arch& hopper = *find_arch("sm_90a");
  const auto config_of = [&](const PlannedProblem& p, KernelPass pass = KernelPass::dq_dk_dv) {
    return heuristic_choices(p, hopper, pass).at(0).config;
  };
  PlannedProblem p = long_problem(64, 2048);
  p.heads_kv = 16;
  CHECK(config_of(p).bulk_sums == 1);
  CHECK(config_of(p, KernelPass::ordered_dq_dk_dv).bulk_sums == 0);
  p.seqlen_q = 2047;
  CHECK(config_of(p).bulk_sums == 0);
  p.heads_kv = 8;  // twice as many steps
  CHECK(config_of(p).bulk_sums == 1);
  p.window_left = 512;
  CHECK(config_of(p).bulk_sums == 0);
  p.varlen = true;  // 64 queries a step
  CHECK(config_of(p).bulk_sums == 1);
  CHECK(config_of(long_problem(72)).bulk_sums == 0);
  p = long_problem(64);
  p.head_dim_v = 80;  // no shared memory for dQ beside both tiles: the same kernel without
  CHECK(config_of(p).bulk_sums == 0);
  CHECK(config_of(p).tile_n == 128);
}

TEST_CASE("heuristic: the precompiled cases include the backwards of all lengths") {
  const Arch& hopper = *find_arch("sm_90a");
  for (const std::int64_t seqlen : {512, 8192}) {
    const PlannedProblem p = long_problem(64, seqlen);
    const KernelConfig config = heuristic_choices(p, hopper, KernelPass::dq_dk_dv).at(0).config;
    CHECK(std::ranges::any_of(
        heuristic_cases(p, hopper, KernelPass::dq_dk_dv), [&](const PlannedProblem& other) {
          return heuristic_choices(other, hopper, KernelPass::dq_dk_dv).at(0).config == config;
        }));
  }
}

TEST_CASE("heuristic: valid with every variant") {
  for (const Arch& arch : known_archs()) {
    for (int dim = 8; dim <= 256; dim += 8) {
      for (int variants = 0; variants < 64; ++variants) {
        PlannedProblem p({.head_dim = dim}, {});
        p.seqlen_q = p.seqlen_k = 4096;
        if (variants & 1) p.window_left = p.window_right = 500;
        p.softcap = variants & 2, p.alibi = variants & 4, p.sinks = variants & 8, p.varlen = variants & 16;
        p.dropout = variants & 32;
        const std::string broken = why_rejected({traits_of(p), heuristic(p, arch).config, arch}).value_or("");
        CHECK_MESSAGE(broken.empty(), to_string(p), " on ", std::string(arch.name), ": ", broken);
      }
    }
  }
}

TEST_CASE("heuristic: the same problem gets the same config, also with a defaulted head_dim_v") {
  PlannedProblem p;
  p.head_dim = 96;
  p.seqlen_q = p.seqlen_k = 1000;
  const KernelConfig config = heuristic(p, *find_arch("sm_90a")).config;
  CHECK(heuristic(p, *find_arch("sm_90a")).config == config);
  CHECK(heuristic(p.normalized(), *find_arch("sm_90a")).config == config);
}
