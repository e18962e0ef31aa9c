// How many thread blocks share a key tile of a fused backward.
#include <doctest/doctest.h>
#include <generator/kernel_kind.h>
#include <planning/attention_params.h>
#include <planning/backward.h>
#include <planning/key_parts.h>
#include <tests/support/backward_request.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <templates/attention/common/params.cuh>

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr int kHopper = 132;  // SMs

AttentionProblem problem_of(std::int64_t batch, std::int64_t seqlen, std::int64_t heads_q,
                            std::int64_t heads_kv, MaskKind mask = MaskKind::none,
                            std::int32_t head_dim = 128) {
  AttentionProblem p{.dtype = DType::bf16, .head_dim = head_dim, .mask = mask};
  p.batch = batch, p.heads_q = heads_q, p.heads_kv = heads_kv, p.seqlen_q = p.seqlen_k = seqlen;
  return p.normalized();
}

/// Returns the config of tiles of 128 x 64.
KernelConfig fused() {
  return default_config(KernelId::backward_sm90);
}

std::int64_t parts_of(const AttentionProblem& p, int sm_count = kHopper) {
  return key_parts(p, fused(), sm_count).count;
}

}  // namespace

TEST_CASE("key parts: few key tiles have several, so that every SM has work") {
  CHECK(parts_of(problem_of(2, 800, 32, 2)) >= 4);   // 28 tiles
  CHECK(parts_of(problem_of(1, 2048, 14, 2)) >= 4);  // 32
  CHECK(parts_of(problem_of(1, 4096, 1, 1)) >= 2);   // 32, of one head
  CHECK(parts_of(problem_of(4, 1024, 8, 1, MaskKind::none, 256)) >= 2);
}

TEST_CASE("key parts: tiles that fill the GPU in even rounds have one") {
  CHECK(parts_of(problem_of(4, 4096, 32, 8)) == 1);    // 1024 tiles
  CHECK(parts_of(problem_of(2, 4224, 16, 2)) == 1);    // 132
  CHECK(parts_of(problem_of(64, 4096, 16, 16)) == 1);  // more than are replayed
  CHECK(parts_of(problem_of(1, 64, 1, 1)) == 1);       // a single step
}

TEST_CASE("key parts: long tiles of a causal mask that begin last are shared") {
  CHECK(parts_of(problem_of(1, 11460, 12, 2, MaskKind::causal_bottom_right)) >= 3);
  CHECK(parts_of(problem_of(13, 957, 11, 1, MaskKind::causal_bottom_right, 256)) >= 3);
}

TEST_CASE("key parts: tiles of unequal length have parts whose queries L2 holds") {
  const auto parts = [](std::int64_t batch, std::int64_t seqlen, std::int64_t heads_q, std::int64_t heads_kv,
                        MaskKind mask, std::int32_t head_dim) {
    return parts_of(problem_of(batch, seqlen, heads_q, heads_kv, mask, head_dim));
  };
  constexpr MaskKind kCausal = MaskKind::causal_bottom_right;
  CHECK(parts(7, 11316, 9, 1, kCausal, 256) == 6);         // 208 MB
  CHECK(parts(6, 7428, 28, 2, kCausal, 256) == 6);         // 213 MB
  CHECK(parts(24, 4301, 8, 1, kCausal, 256) == 2);         // 70 MB
  CHECK(parts(5, 9195, 22, 2, kCausal, 128) == 3);         // 104 MB
  CHECK(parts(54, 1787, 4, 1, kCausal, 256) == 1);         // 15 MB
  CHECK(parts(14, 8480, 7, 1, MaskKind::none, 256) == 1);  // tiles of equal length stay together
  CHECK(parts(8, 32768, 1, 1, kCausal, 256) == 1);         // two parts would take twice the memory of dQ
}

TEST_CASE("key parts: bits that may not depend on the batch, and unknown GPUs, have one") {
  const AttentionProblem few = problem_of(1, 2048, 14, 2);
  CHECK(key_parts(few, default_config(KernelId::backward_ordered_sm90), kHopper).count == 1);
  CHECK(parts_of(few, 0) == 1);
}

TEST_CASE("key parts: any problem's parts hold all steps, and have room") {
  std::mt19937 random(1);
  const auto draw = [&](int least, int most) { return std::uniform_int_distribution<>(least, most)(random); };
  std::size_t shared = 0;
  for (int i = 0; i < 400; ++i) {
    const MaskKind mask = draw(0, 1) == 0 ? MaskKind::none : MaskKind::causal_bottom_right;
    const std::int64_t heads_kv = draw(1, 8);
    AttentionProblem p =
        problem_of(draw(1, 16), draw(1, 3000), heads_kv * draw(1, 16), heads_kv, mask, 64 * draw(1, 4));
    if (draw(0, 3) == 0) p.seqlen_q = draw(0, 3000);
    if (draw(0, 3) == 0) p.window_left = draw(0, 500);
    if (draw(0, 3) == 0) p.attention_chunk = draw(1, 500);
    const KernelConfig config = fused();
    const BackwardScratch scratch = scratch_for(p, config, kHopper);
    INFO(to_string(p));
    CHECK(scratch.parts.count >= 1);
    if (scratch.parts.count == 1) continue;
    ++shared;
    CHECK(scratch.part_blocks() >= scratch.key_tiles * scratch.parts.count);
    CHECK(scratch.part_blocks() < (scratch.key_tiles + scratch.parts.section_tiles) * scratch.parts.count);
    CHECK(scratch.part_floats == 8 + config.tile_m * 2 * p.head_dim);
    CHECK(scratch.bytes(p) >= static_cast<std::size_t>(
                                  4 * (scratch.part_start(p) + scratch.part_blocks() * scratch.part_floats)));
    const std::int64_t of_dq = 4 * p.batch * p.heads_q * p.seqlen_q * p.head_dim;
    CHECK(4 * scratch.key_tiles * scratch.parts.count * config.tile_m * 2 * p.head_dim <=
          std::max(std::int64_t{128} << 20, of_dq / 2 * 3));
    const Step step = backward_step(p, config, nullptr, scratch);
    CHECK(step.shape.grid ==
          scratch.part_blocks() * (p.head_dim > 128 ? 2 : 1));  // two blocks share a wide tile
    const Step convert = backward_step(p, conversion_of(config).config, nullptr, scratch);
    const auto& params = convert.constants.as<BackwardParams>();
    CHECK(params.merge_blocks == scratch.key_tiles * config.tile_m / kMergedRows);
    CHECK(convert.shape.grid > params.merge_blocks);
    const auto writes = [&](Role role) {
      return std::ranges::any_of(convert.uses, [&](const OperandUse& use) {
        return use.role == role && use.access == Access::write;
      });
    };
    CHECK(writes(Role::dk));
    CHECK(writes(Role::dv));
  }
  CHECK(shared > 100);
}
