// Buckets: rounding, extremes, distances.
#include <autotune/bucket.h>
#include <doctest/doctest.h>
#include <tests/support/tuning_record.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

using namespace fa2;
using namespace fa2::test;

namespace {

PlannedProblem problem(std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv, std::int64_t seqlen_q,
                       std::int64_t seqlen_k) {
  PlannedProblem p;
  p.head_dim = 128;
  p.batch = batch;
  p.heads_q = heads_q;
  p.heads_kv = heads_kv;
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  return p;
}

/// Returns the size's logarithm; -1 if the bucket does not have the size.
int log2_of(const Bucket& bucket, std::string_view size) {
  for (const SizeLog2& has : bucket.sizes) {
    if (has.name == size) return has.log2;
  }
  return -1;
}

}  // namespace

TEST_CASE("bucket: largest logits count in the forward alone, the base of LSE and float32 outputs nowhere") {
  PlannedProblem p({.head_dim = 64, .seqlen_q = 512, .seqlen_k = 512}, {}), changed = p;
  changed.lse_base = LseBase::two;
  changed.float32_dk_dv = changed.float32_dq = changed.float32_out = true;
  CHECK(bucket_of(changed) == bucket_of(p));
  changed.max_logits = true;
  CHECK(bucket_of(changed) != bucket_of(p));
  CHECK(bucket_of(changed).traits == "f16_d64_none_max_logits");
  CHECK(bucket_of(changed, KernelPass::dk_dv) == bucket_of(p, KernelPass::dk_dv));
}

TEST_CASE("a bucket rounds to the nearest power of two") {
  const Bucket bucket = bucket_of(problem(2, 32, 8, 4096, 1000));
  CHECK(bucket.group_log2 == 2);
  CHECK(log2_of(bucket, "seqlen_q") == 12);
  CHECK(log2_of(bucket, "seqlen_k") == 10);
  CHECK(bucket.heads_log2 == 6);

  CHECK(log2_of(bucket_of(problem(1, 1, 1, 5, 5)), "seqlen_q") == 2);  // 2^2.32
  CHECK(log2_of(bucket_of(problem(1, 1, 1, 6, 6)), "seqlen_q") == 3);  // 2^2.58
  CHECK(bucket_of(problem(1, 6, 2, 1, 1)).group_log2 == 2);            // 2^1.58
}

TEST_CASE("a bucket exists for extreme sizes") {
  const Bucket least = bucket_of(problem(0, 1, 0, 0, 0));
  CHECK(least.group_log2 == 0);
  CHECK(log2_of(least, "seqlen_q") == 0);
  CHECK(log2_of(least, "seqlen_k") == 0);
  CHECK(least.heads_log2 == 0);
  CHECK(bucket_of(problem(1, 1, 1, 1, 1)) == least);

  const Bucket most = bucket_of(problem(INT64_MAX, INT64_MAX, 1, INT32_MAX, INT32_MAX));
  CHECK(most.heads_log2 == 126);  // no overflow in between
  CHECK(log2_of(most, "seqlen_q") == 31);
}

TEST_CASE("a problem's defaults do not change its bucket; its traits do") {
  PlannedProblem plain = problem(2, 8, 0, 512, 512);
  CHECK(bucket_of(plain) == bucket_of(problem(2, 8, 8, 512, 512)));
  plain.head_dim_v = 128;
  CHECK(bucket_of(plain) == bucket_of(problem(2, 8, 0, 512, 512)));
  plain.mask = MaskKind::causal_bottom_right;
  CHECK_FALSE(bucket_of(plain) == bucket_of(problem(2, 8, 0, 512, 512)));
}

TEST_CASE("distance is the sum of differences of exponents, within the same traits") {
  const Bucket a = bucket_of(problem(2, 32, 8, 4096, 4096));
  CHECK(distance(a, a) == 0);
  CHECK(distance(a, bucket_of(problem(2, 32, 8, 2048, 8192))) == 2);
  CHECK(distance(bucket_of(problem(2, 32, 8, 2048, 8192)), a) == 2);
  CHECK(distance(a, bucket_of(problem(8, 32, 8, 4096, 4096))) == 2);
  CHECK(distance(a, bucket_of(problem(2, 32, 32, 4096, 4096))) == 2);
  PlannedProblem other = problem(2, 32, 8, 4096, 4096);
  other.dtype = DType::bf16;
  CHECK_FALSE(distance(a, bucket_of(other)).has_value());
}

TEST_CASE("a bucket of windows: which sides are bounded is a trait, their width is a size") {
  const PlannedProblem plain = problem(1, 8, 8, 4096, 4096);
  const auto with = [&](std::optional<std::int64_t> left, std::optional<std::int64_t> right) {
    PlannedProblem p = plain;
    p.window_left = left;
    p.window_right = right;
    return bucket_of(p);
  };
  CHECK_FALSE(distance(with(4096, {}), bucket_of(plain)).has_value());
  CHECK_FALSE(distance(with(4096, {}), with({}, 4096)).has_value());
  CHECK_FALSE(distance(with(4096, {}), with(4096, 4096)).has_value());
  CHECK(log2_of(bucket_of(plain), "window_left") == -1);
  CHECK(log2_of(with(4096, {}), "window_left") == 12);
  CHECK(log2_of(with(4095, {}), "window_left") == 12);
  CHECK(log2_of(with(0, 7), "window_left") == 0);
  CHECK(log2_of(with(0, 7), "window_right") == 3);
  CHECK(log2_of(with(std::int64_t{1} << 62, {}), "window_left") == 62);

  CHECK(with(4095, {}) == with(4096, {}));
  CHECK(distance(with(1024, {}), with(4096, {})) == 2);
  CHECK(distance(with(1024, 256), with(4096, 128)) == 3);
  CHECK(to_string(with(1023, {})).find(" window_left ~1024 seqlen_q ~4096") != std::string::npos);
  for (const Bucket& bucket : {with(1024, {}), with(0, 0), with({}, 300)}) {
    PlannedProblem traits = plain;
    if (log2_of(bucket, "window_left") >= 0) traits.window_left = 0;
    if (log2_of(bucket, "window_right") >= 0) traits.window_right = 0;
    CHECK(is_found_again(bucket, traits));
  }

  // With a causal mask there is nothing after the diagonal to bound.
  PlannedProblem causal = plain, bounded = plain;
  causal.mask = bounded.mask = MaskKind::causal_bottom_right;
  bounded.window_right = 16;
  CHECK(bucket_of(causal) == bucket_of(bounded));
}

TEST_CASE("a bucket of varlen: varlen is a trait, and the totals are sizes that only varlen has") {
  const PlannedProblem plain = problem(8, 8, 8, 4096, 4096);
  const auto with = [&](std::int64_t total_q, std::int64_t total_k) {
    PlannedProblem p = plain;
    p.varlen = true;
    p.total_q = total_q;
    p.total_k = total_k;
    return bucket_of(p);
  };
  CHECK(log2_of(bucket_of(plain), "total_q") == -1);
  CHECK(to_string(bucket_of(plain)).find("total") == std::string::npos);
  CHECK_FALSE(distance(with(0, 0), bucket_of(plain)).has_value());
  CHECK(log2_of(with(16000, 30000), "total_q") == 14);
  CHECK(log2_of(with(16000, 30000), "total_k") == 15);
  CHECK(distance(with(16000, 30000), with(8000, 15000)) == 2);
  CHECK(with(16000, 16000) == with(16384, 16384));
  CHECK(to_string(with(16000, 30000)) ==
        "f16_d128_none_varlen group ~1 batch*heads ~64 seqlen_q ~4096 seqlen_k ~4096 total_q ~16384 total_k "
        "~32768");
  for (const Bucket& bucket : {with(0, 0), with(16000, 0), with(0, 30000), with(16000, 30000)}) {
    PlannedProblem traits = plain;
    traits.varlen = true;
    const PlannedProblem own = problem_of(bucket, traits);
    CHECK(bucket_of(own) == bucket);
    CHECK((own.total_q > 0) == (log2_of(bucket, "total_q") > 0));  // a batched side stays batched
    CHECK((own.total_k > 0) == (log2_of(bucket, "total_k") > 0));
  }
}

TEST_CASE("a bucket of variants with numbers: the numbers do not matter") {
  PlannedProblem p = problem(1, 8, 8, 4096, 4096);
  const Bucket plain = bucket_of(p);
  for (bool AttentionProblem::*variant :
       {&AttentionProblem::softcap, &AttentionProblem::alibi, &AttentionProblem::sinks}) {
    p.*variant = true;
    CHECK_FALSE(distance(bucket_of(p), plain).has_value());
    p.*variant = false;
  }
}

TEST_CASE("a bucket of few queries: groups of 7 and 8 heads share tiles alike, and have one bucket") {
  const Bucket seven = bucket_of(problem(64, 28, 4, 1, 2048)), eight = bucket_of(problem(64, 32, 4, 1, 2048));
  CHECK(seven == eight);
  CHECK(eight.tiles_half_octaves == 16);  // 256 tiles
  CHECK_FALSE(bucket_of(problem(64, 32, 32, 1, 2048)) == eight);
}

TEST_CASE("a bucket prints its traits and sizes") {
  const std::string text = to_string(bucket_of(problem(2, 32, 8, 4096, 1000)));
  CHECK(text == bucket_of(problem(1, 1, 1, 1, 1)).traits +
                    " group ~4 batch*heads ~64 tiles ~4096 seqlen_q ~4096 seqlen_k ~1024");
}

TEST_CASE("a bucket's own problem belongs to it") {
  for (const PlannedProblem& p :
       {problem(2, 32, 8, 4096, 1000), problem(1, 1, 1, 1, 1), problem(3, 48, 4, 37, 100000)}) {
    CHECK(is_found_again(bucket_of(p), p));
  }
}

TEST_CASE("buckets of different passes differ and are far apart") {
  const PlannedProblem p = problem(2, 32, 8, 4096, 1000);
  std::set<std::string> texts;
  for (const KernelKind* kind : kernel_kinds()) {
    const Bucket bucket = bucket_of(p, kind->pass);
    CHECK(bucket.pass == kind->pass);
    CHECK(distance(bucket, bucket) == 0);
    const bool is_forward = kind->pass == KernelPass::forward;
    CHECK((bucket == bucket_of(p)) == is_forward);
    CHECK(distance(bucket, bucket_of(p)).has_value() == is_forward);
    CHECK(is_found_again(bucket, p));
    texts.insert(to_string(bucket));
    CHECK(to_string(bucket).find("invalid") == std::string::npos);  // each pass has a word
  }
  std::set<KernelPass> passes;
  for (const KernelKind* kind : kernel_kinds()) passes.insert(kind->pass);
  CHECK(texts.size() == passes.size());
  CHECK(to_string(bucket_of(p, KernelPass::dk_dv)) ==
        "f16_d128_none dk_dv group ~4 batch*heads ~64 tiles ~4096 seqlen_q ~4096 seqlen_k ~1024");
}

TEST_CASE("a bucket distinguishes the number of tiles per SM, to half an octave") {
  // 64 and 90 heads of 256 and 276 queries are similar sizes, but have 256 and 450 tiles.
  const Bucket few = bucket_of(problem(8, 8, 2, 256, 256)), more = bucket_of(problem(9, 10, 2, 276, 276));
  CHECK(few.tiles_half_octaves == 16);
  CHECK(more.tiles_half_octaves == 18);
  CHECK(to_string(few).find(" tiles ~256 ") != std::string::npos);
  // Rows of packed heads: 31 queries of 2 heads fit one tile, 45 do not.
  CHECK(bucket_of(problem(2, 56, 4, 31, 33999)).tiles_half_octaves == 12);
  CHECK(bucket_of(problem(3, 42, 3, 45, 27083)).tiles_half_octaves == 14);

  Bucket other = few;
  other.tiles_half_octaves += 2;
  CHECK(distance(few, other) == 1);
  PlannedProblem packed = problem(8, 8, 2, 256, 256);
  packed.varlen = true;
  packed.total_q = packed.total_k = 2048;
  CHECK(bucket_of(packed).tiles_half_octaves == 0);
}
