// TMA on the device under test: the layout of a box in shared memory, and how it is stored back.
#include <doctest/doctest.h>
#include <runtime/device.h>
#include <runtime/tensor_map.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using Five = std::array<int, 5>;

/// A tensor of 16-bit elements with padded rows, and a box of it.
struct Box {
  std::string name;
  Swizzle swizzle;
  Five box;
  Five at;
  Five size = {40, 11, 5, 3, 2};

  static constexpr int kRowElements = 48;
  int elements() const { return std::accumulate(box.begin(), box.end(), 1, std::multiplies<>()); }
  int bytes() const { return 2 * elements(); }
  Five strides() const {  // in elements
    Five stride = {1, kRowElements, 0, 0, 0};
    for (std::size_t i = 2; i < 5; ++i) stride[i] = stride[i - 1] * size[i - 1];
    return stride;
  }
  int tensor_elements() const { return strides()[4] * size[4]; }

  TensorMap map(void* data) const {
    TensorMapSpec spec;
    spec.data = data;
    spec.swizzle = swizzle;
    for (std::size_t i = 0; i < 5; ++i) spec.dimensions[i] = {size[i], 2 * strides()[i], box[i]};
    return encode_tensor_map(spec);
  }

  /// Calls visit(offset in shared memory, index in the tensor or -1 outside) for every element; both count
  /// elements.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (int i = 0; i < elements(); ++i) {
      int rest = i, index = 0;
      bool inside = true;
      for (std::size_t d = 0; d < 5; ++d) {
        const int coordinate = at[d] + rest % box[d];
        rest /= box[d];
        inside &= coordinate >= 0 && coordinate < size[d];
        index += coordinate * strides()[d];
      }
      visit(place(i), inside ? index : -1);
    }
  }

  /// Returns the swizzled offset of an element. The swizzle XORs bits 4..6 of the byte address with bits
  /// 7..9, as many as it has.
  int place(int element) const {
    const int mask = swizzle == Swizzle::span128  ? 7
                     : swizzle == Swizzle::span64 ? 3
                     : swizzle == Swizzle::span32 ? 1
                                                  : 0;
    return element ^ ((element >> 6 & mask) << 3);
  }
};

const std::vector<Box> kBoxes = {
    {"no swizzle", Swizzle::none, {24, 5, 2, 1, 1}, {8, 3, 1, 2, 1}},
    {"no swizzle, past every end", Swizzle::none, {32, 8, 4, 2, 2}, {16, 7, 3, 2, 1}},
    {"no swizzle, before every start", Swizzle::none, {40, 3, 2, 2, 2}, {-16, -1, -1, -1, -1}},
    {"32 bytes", Swizzle::span32, {16, 9, 3, 1, 1}, {8, 1, 0, 0, 0}},
    {"32 bytes, past the end", Swizzle::span32, {16, 16, 2, 1, 1}, {32, 5, 4, 0, 1}},
    {"64 bytes", Swizzle::span64, {32, 7, 2, 2, 1}, {8, 0, 2, 1, 1}},
    {"64 bytes, before the start", Swizzle::span64, {32, 20, 1, 1, 1}, {-8, -10, 4, 2, 0}},
    {"128 bytes", Swizzle::span128, {64, 11, 3, 1, 2}, {0, 0, 1, 1, 0}},
    {"128 bytes, past the end", Swizzle::span128, {64, 64, 1, 1, 1}, {-24, 4, 0, 0, 1}},
    {"128 bytes, wholly outside", Swizzle::span128, {64, 8, 1, 1, 1}, {0, 11, 0, 0, 0}},
    {"128 bytes, the most rows", Swizzle::span128, {64, 256, 1, 1, 1}, {0, -100, 4, 2, 1}},
};

struct TmaParams {
  TensorMap map;
  void* data;
  int at[5];
  int bytes;
};
constexpr const char* kTmaParams = "TensorMap map; unsigned char* data; TensorCoordinates at; int bytes;";
constexpr int kSharedBytes = 34 << 10;

std::vector<std::uint16_t> numbered(int count, int first) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<std::uint16_t>(first));
  return values;
}

DeviceBuffer uploaded(const std::vector<std::uint16_t>& values) {
  DeviceBuffer buffer(2 * values.size());
  buffer.upload(values.data(), buffer.size());
  return buffer;
}

std::vector<std::uint16_t> downloaded(const DeviceBuffer& buffer) {
  std::vector<std::uint16_t> values(buffer.size() / 2);
  buffer.download(values.data(), buffer.size());
  return values;
}

TmaParams params_of(const Box& box, void* tensor, void* data) {
  TmaParams params{box.map(tensor), data, {}, box.bytes()};
  std::copy(box.at.begin(), box.at.end(), params.at);
  return params;
}

}  // namespace

TEST_CASE("a tensor load reads any box, swizzled, with zeros outside of the tensor") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  const auto kernel = build({R"(
    const SharedAddress tile = dynamic_shared(), loaded = tile + 33 * 1024;
    if (thread_index() == 0) {
      prefetch_tensor_map(p.map);
      mbarrier_init(loaded, 1);
      fence_mbarrier_init();
    }
    bar_sync();
    if (thread_index() == 0) {
      mbarrier_arrive_expect_tx(loaded, p.bytes);
      tma_load(tile, p.map, p.at, loaded, kEvictFirst);
    }
    mbarrier_wait(loaded, 0);
    for (int i = 16 * thread_index(); i < p.bytes; i += 16 * 128) st_global_v4(p.data + i, ld_shared_v4(tile + i));)",
                             kTmaParams, 128, kSharedBytes});
  for (const Box& box : kBoxes) {
    CAPTURE(box.name);
    const std::vector<std::uint16_t> tensor = numbered(box.tensor_elements(), 1);
    const DeviceBuffer in = uploaded(tensor);
    const DeviceBuffer out(static_cast<std::size_t>(box.bytes()));
    launch(*kernel, params_of(box, in.data(), out.data()), Buffers{}.input(in).output(out));
    std::vector<std::uint16_t> expected(static_cast<std::size_t>(box.elements()));
    box.for_each([&](int place, int index) {
      expected[static_cast<std::size_t>(place)] = index < 0 ? 0 : tensor[static_cast<std::size_t>(index)];
    });
    CHECK(downloaded(out) == expected);
  }
}

TEST_CASE("a tensor store writes the part of the box inside the tensor, and nothing else") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  const auto kernel = build({R"(
    for (int i = 4 * thread_index(); i < p.bytes; i += 4 * 128) st_shared_u32(dynamic_shared() + i, i / 2 | (i / 2 + 1) << 16);
    fence_proxy_async_shared();
    bar_sync();
    if (thread_index() == 0) {
      tma_store(p.map, p.at, dynamic_shared());
      bulk_commit_group();
      bulk_wait_group_read<0>();
    }
    bar_sync();
    st_shared_u32(dynamic_shared() + 4 * thread_index(), 0);)",
                             kTmaParams, 128, kSharedBytes});
  for (Box box : kBoxes) {
    CAPTURE(box.name);
    for (int& coordinate : box.at) coordinate = std::max(coordinate, 0);
    std::vector<std::uint16_t> expected = numbered(box.tensor_elements(), 30000);
    const DeviceBuffer out = uploaded(expected);
    launch(*kernel, params_of(box, out.data(), nullptr), Buffers{}.output(out));
    box.for_each([&](int place, int index) {
      if (index >= 0) expected[static_cast<std::size_t>(index)] = static_cast<std::uint16_t>(place);
    });
    CHECK(downloaded(out) == expected);
  }
}

TEST_CASE("bulk loads of plain bytes, and bulk stores that add float32") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  struct Params {
    const float* in;
    float* out;
  };
  // Two blocks add the same 256 floats, in two groups each.
  const auto kernel = build({R"(
    const SharedAddress tile = dynamic_shared(), loaded = tile + 1024;
    if (thread_index() == 0) {
      mbarrier_init(loaded, 1);
      fence_mbarrier_init();
      mbarrier_arrive_expect_tx(loaded, 1024);
      bulk_load(tile, p.in, 1008, loaded);
      bulk_load(tile + 1008, p.in + 252, 16, loaded);
      mbarrier_wait(loaded, 0);
      bulk_reduce_add_f32(p.out, tile, 512);
      bulk_commit_group();
      bulk_reduce_add_f32(p.out + 128, tile + 512, 512);
      bulk_commit_group();
      bulk_wait_group_read<1>();
      bulk_wait_group<0>();
    })",
                             "const float* in; float* out;", 32, 1040});
  std::vector<float> in(256), out(256);
  for (int i = 0; i < 256; ++i) {
    in[static_cast<std::size_t>(i)] = static_cast<float>(i);
    out[static_cast<std::size_t>(i)] = 0.5f * static_cast<float>(i);
  }
  DeviceBuffer source(1024), sums(1024);
  source.upload(in.data(), 1024);
  sums.upload(out.data(), 1024);
  launch(*kernel, Params{static_cast<const float*>(source.data()), static_cast<float*>(sums.data())},
         Buffers{}.input(source).in_out(sums), 2);
  sums.download(out.data(), 1024);
  for (int i = 0; i < 256; ++i) CHECK(out[static_cast<std::size_t>(i)] == 2.5f * static_cast<float>(i));
}

TEST_CASE("a tensor map's error lists everything that TMA cannot do") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext context(device_under_test());
  const DeviceBuffer buffer(4096);
  TensorMapSpec spec;
  spec.data = static_cast<std::byte*>(buffer.data()) + 8;
  spec.swizzle = Swizzle::span64;
  spec.dimensions = {
      {{0, 0, 16}, {4, 24, 257}, {1, 7, 1}, {2, 0, 1}, {std::int64_t{1} << 33, std::int64_t{1} << 40, 0}}};
  try {
    encode_tensor_map(spec);
    FAIL("it was encoded");
  } catch (const InvalidRequest& error) {
    std::vector<std::string> fields;
    for (const Violation& violation : error.violations()) fields.push_back(violation.field);
    CHECK(fields == std::vector<std::string>{"data", "dimensions[0].size", "dimensions[1].box",
                                             "dimensions[1].stride", "dimensions[3].stride",
                                             "dimensions[4].size", "dimensions[4].box",
                                             "dimensions[4].stride", "dimensions[0].box"});
  }
  spec = {};
  spec.data = buffer.data();
  spec.dimensions[0] = {40, 0, 12};
  CHECK_THROWS_AS(encode_tensor_map(spec), InvalidRequest);
  spec.dimensions[0].box = 24;
  spec.dimensions[3].stride = 7;  // has no meaning
  CHECK_NOTHROW(encode_tensor_map(spec));
}
