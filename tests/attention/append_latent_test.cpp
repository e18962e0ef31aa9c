// append() to rows of 656 bytes: codes, a factor for each 128 of them, and rotated columns.
#include <core/float_bits.h>
#include <doctest/doctest.h>
#include <fa2/append.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <reference/append.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "../support/append_call.h"
#include "../support/temporary_directory.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int64_t kRotated = 64, kLatent = 512, kGroup = 128, kRowBytes = 656;
constexpr std::uint8_t kPattern = 0x5a;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A call with two heads, over pages of four rows whose heads lie apart.
struct LatentCall {
  AppendProblem problem{.dtype = DType::bf16,
                        .head_dim = kRotated,
                        .head_dim_v = kLatent,
                        .rotary_dim = 48,
                        .rotary_style = RotaryStyle::interleaved,
                        .float32_tables = true,
                        .table_rows = 12,
                        .kv_type = KvType::ds_mla,
                        .batch = 2,
                        .heads_kv = 2,
                        .seqlen_new = 3,
                        .page_size = 4,
                        .cache_entries = 6,
                        .max_pages = 3};
  AppendTables tables{.seqlens = {0, 7}, .page_table = {{4, 1, 0}, {2, 5, 3}}};
  AppendArgs args;

  /// `shift`: elements before the new rows. With 1, they are aligned to one element only.
  explicit LatentCall(std::int64_t shift = 0, bool turns = true) {
    if (!turns) problem.rotary_dim = 0, problem.table_rows = 0;
    const auto send = [&](std::vector<std::uint16_t>& image, std::int64_t columns, DeviceBuffer& buffer,
                          TensorStrides& strides) -> const void* {
      image.resize(static_cast<std::size_t>(shift + 12 * columns), kNaNBits);
      strides = TensorStrides::bshd(3, 2, columns);
      for (std::size_t i = static_cast<std::size_t>(shift); i < image.size(); ++i)
        image[i] = to_bits(number(i - static_cast<std::size_t>(shift), columns), DType::bf16);
      buffer = DeviceBuffer(image.size() * 2);
      buffer.upload(image.data(), buffer.size());
      return static_cast<const std::uint16_t*>(buffer.data()) + shift;
    };
    args.k_new = send(k_, kRotated, k_buffer_, args.k_new_strides);
    args.v_new = send(v_, kLatent, v_buffer_, args.v_new_strides);
    first_ = static_cast<std::size_t>(shift);
    args.k_cache_strides = args.v_cache_strides = {9 * kRowBytes, 4 * kRowBytes, kRowBytes};
    image_.assign(static_cast<std::size_t>(6 * 9 * kRowBytes), kPattern);
    cache_.upload(image_.data(), image_.size());
    args.k_cache = args.v_cache = cache_.data();
    for (std::int64_t i = 0; i < problem.table_rows * problem.rotary_dim / 2; ++i) {
      cos_.push_back(std::cos(0.1F * static_cast<float>(i)));
      sin_.push_back(std::sin(0.1F * static_cast<float>(i)));
    }
    if (turns) {
      angles_.upload(cos_.data(), cos_.size() * 4);
      other_angles_.upload(sin_.data(), sin_.size() * 4);
      args.cos = angles_.data(), args.sin = other_angles_.data(), args.table_stride = problem.rotary_dim / 2;
    }
    const std::int32_t numbers[] = {0, 7, 4, 1, 0, 2, 5, 3};
    numbers_.upload(numbers, sizeof numbers);
    args.seqlens = static_cast<const std::int32_t*>(numbers_.data());
    args.page_table = args.seqlens + 2, args.page_table_stride = 3;
  }

  std::vector<std::uint8_t> cache_now() const { return downloaded<std::uint8_t>(cache_); }
  bool is_untouched() const { return cache_now() == image_; }

  /// CHECKs the cache after the call.
  void check() const {
    std::vector<std::uint8_t> now = cache_now();
    for (const reference::MovedRow& row : reference::appended_rows(problem, tables)) {
      for (std::int64_t head = 0; head < 2; ++head) {
        const std::int64_t from = (row.entry * 3 + row.row) * 2 + head;
        std::uint8_t* const to =
            now.data() + row.cache_entry * 9 * kRowBytes + head * 4 * kRowBytes + row.cache_row * kRowBytes;
        INFO("entry ", row.entry, " row ", row.row, " head ", head);
        check_codes(v_.data() + first_ + from * kLatent, to);
        check_rotated(k_.data() + first_ + from * kRotated, to + kLatent + 16, row.position);
        std::memset(to, kPattern, kRowBytes);
      }
    }
    CHECK(now == image_);
  }

 private:
  /// Groups of many magnitudes, some with NaN or infinities, one of zeros.
  static float number(std::size_t i, std::int64_t columns) {
    const std::size_t group = i / static_cast<std::size_t>(kGroup),
                      col = i % static_cast<std::size_t>(kGroup);
    const float x = std::sin(static_cast<float>(i)) * std::ldexp(1.0F, static_cast<int>(group * 7 % 40) - 20);
    if (columns == kRotated) return std::sin(static_cast<float>(i));
    if (group % 12 == 1 && col == 17) return std::numeric_limits<float>::quiet_NaN();
    if (group % 12 == 2 && col == 100) return -kInfinity;
    if (group % 12 == 3) return 0;
    if (group % 12 == 4) return col == 5 ? 448 : x * 0x1p-20F;    // just fits
    if (group % 12 == 5) return col == 127 ? 450 : x * 0x1p-20F;  // just does not
    if (group % 12 == 6) return col == 0 ? -0x1.fep127F : x;
    if (group % 12 == 7) return x * 0x1p-110F;
    return x;
  }

  static void check_codes(const std::uint16_t* from, const std::uint8_t* to) {
    for (std::int64_t group = 0; group < 4; ++group) {
      float largest = 0, factor = 0;
      for (std::int64_t i = 0; i < kGroup; ++i)
        largest = std::fmax(largest, std::fabs(from_bits(from[group * kGroup + i], ElementType::bf16)));
      std::memcpy(&factor, to + kLatent + 4 * group, sizeof factor);
      INFO("group ", group, " factor ", factor, " largest ", largest);
      int exponent = 0;
      CHECK(std::frexp(factor, &exponent) == 0.5F);
      CHECK((largest == kInfinity ? factor == 0x1p120F : 448.0 * factor >= largest));
      CHECK((factor == 0x1p-126F || 224.0 * factor < largest));
      for (std::int64_t i = 0; i < kGroup; ++i) {
        const std::uint8_t code = to[group * kGroup + i],
                           wanted = to_e4m3(from_bits(from[group * kGroup + i], ElementType::bf16) / factor);
        const bool is_same = code == wanted || ((code & wanted & 0x7f) == 0x7f);
        if (!is_same) CHECK_MESSAGE(code == wanted, "column ", group * kGroup + i);
      }
    }
  }

  void check_rotated(const std::uint16_t* from, const std::uint8_t* to, std::int64_t position) const {
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < kRotated; ++i) wanted.push_back(from_bits(from[i], ElementType::bf16));
    if (problem.rotary_dim > 0) {
      const auto angle = static_cast<std::size_t>(position * problem.rotary_dim / 2);
      wanted = reference::turned(problem, wanted, &cos_[angle], &sin_[angle]);
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, to + 2 * i, sizeof bits);
      const double unit = static_cast<std::int32_t>(i) < problem.rotary_dim ? 0x1p-8 : 0;
      CHECK(std::fabs(from_bits(bits, ElementType::bf16) - wanted[i]) <=
            unit * std::fabs(wanted[i]) + unit * 1e-3);
    }
  }

  std::size_t first_ = 0;
  std::vector<std::uint16_t> k_, v_;
  std::vector<std::uint8_t> image_;
  std::vector<float> cos_, sin_;
  DeviceBuffer k_buffer_{0}, v_buffer_{0}, cache_{6 * 9 * kRowBytes}, angles_{12 * 24 * 4},
      other_angles_{12 * 24 * 4}, numbers_{32};
};

}  // namespace

TEST_CASE("append to rows of 656 bytes: codes, their factors and rotated columns") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const bool turns : {false, true}) {
    for (const int shift : {0, 1}) {
      INFO("turns ", turns, " shift ", shift);
      const LatentCall call(shift, turns);
      context.append(call.problem, call.args);
      call.check();
    }
  }
}

TEST_CASE("append to rows of 656 bytes: a call that breaks a rule writes nothing") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const LatentCall call;
  const auto expect_refused = [&](const AppendProblem& problem, const AppendArgs& args, const char* rule) {
    CHECK_THROWS_WITH_AS(context.append(problem, args), doctest::Contains(rule), InvalidRequest);
  };
  AppendArgs args = call.args;
  args.v_cache = static_cast<char*>(args.v_cache) + kRowBytes;
  expect_refused(call.problem, args, "must be k_cache, with its strides, with kv_type ds_mla");
  args = call.args;
  args.v_cache_strides.row *= 2;
  expect_refused(call.problem, args, "must be k_cache, with its strides, with kv_type ds_mla");
  args = call.args;
  args.k_cache_strides.row = args.v_cache_strides.row = 640;
  expect_refused(call.problem, args, "k_cache_strides.row = 640, must be");
  float factor = 1;
  args = call.args;
  args.v_descale = &factor;
  expect_refused(call.problem, args, "v_descale = given, must be null, or the problem's kv_type e4m3");
  AppendProblem problem = call.problem;
  problem.dtype = DType::f16, problem.head_dim = 576, problem.head_dim_v = 0;
  expect_refused(problem, call.args, "dtype = f16, must be bf16 with kv_type ds_mla");
  expect_refused(problem, call.args, "head_dim = 576, must be 64 with kv_type ds_mla");
  expect_refused(problem, call.args, "head_dim_v = 0, must be 512 with kv_type ds_mla");
  CHECK(call.is_untouched());
}

TEST_CASE("append to latents: a pack that was made for their attention has the kernel") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const TemporaryDirectory pack;
  PrecompileOptions options;
  options.out = pack.path();
  options.append = true;
  options.plans = {{RowAlignment::bytes16}};
  const AttentionProblem problem{.dtype = DType::bf16,
                                 .head_dim = 576,
                                 .head_dim_v = 512,
                                 .kv_type = KvType::ds_mla,
                                 .values_in_keys = true};
  Context(untuned()).precompile({problem}, {std::string(device(device_under_test()).arch.name)}, options);
  Context context(serving(pack.path()));
  const LatentCall call;
  context.append(call.problem, call.args);
  call.check();
}
