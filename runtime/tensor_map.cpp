// Validates and encodes a tensor map. Every call of an sm90 kernel does, so a rule's text is made only if the
// rule is violated.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/device.h>
#include <runtime/driver.h>
#include <runtime/tensor_map.h>

#include <cstring>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 32, kStrideLimit = std::int64_t{1} << 40;
constexpr std::int32_t kMostInBox = 256;

using Violations = std::vector<Violation>;

void add(Violations& found, std::size_t i, const char* field, std::int64_t value, std::string rule) {
  found.push_back({fmt::format("dimensions[{}].{}", i, field), fmt::format("{}", value), std::move(rule)});
}

void check_row(Violations& found, const TensorMapSpec& spec) {
  const std::int32_t box = spec.dimensions[0].box;
  const int row = box * bytes_of(spec.element), span = span_of(spec.swizzle);
  if (spec.swizzle == Swizzle::none) {
    if (row % 16 != 0) add(found, 0, "box", box, "must be a multiple of 16 bytes");
  } else if (row != span) {
    add(found, 0, "box", box, fmt::format("must be the swizzle's span of {} bytes", span));
  }
}

Violations violations_of(const TensorMapSpec& spec) {
  Violations found;
  const auto address = reinterpret_cast<std::uintptr_t>(spec.data);
  if (address == 0 || address % 16 != 0)
    found.push_back({"data", fmt::format("{}", spec.data), "must be a multiple of 16 bytes, and not null"});
  for (std::size_t i = 0; i < spec.dimensions.size(); ++i) {
    const TensorDimension& d = spec.dimensions[i];
    if (d.size < 1 || d.size > kMostElements) add(found, i, "size", d.size, "must be 1..2^32");
    if (d.box < 1 || d.box > kMostInBox) add(found, i, "box", d.box, "must be 1..256");
    const bool has_stride = i > 0 && d.size > 1;
    if (has_stride && (d.stride <= 0 || d.stride >= kStrideLimit || d.stride % 16 != 0))
      add(found, i, "stride", d.stride, "must be a positive multiple of 16 bytes below 2^40");
  }
  check_row(found, spec);
  return found;
}

/// Returns the dimension's stride. With one element any legal stride serves.
std::int64_t stride_of(const TensorMapSpec& spec, std::size_t i) {
  if (spec.dimensions[i].size > 1) return spec.dimensions[i].stride;
  return (spec.dimensions[0].size * bytes_of(spec.element) + 15) / 16 * 16;
}

TensorMap encode_for_interpreter(const TensorMapSpec& spec) {
  InterpretedTensorMap map{};
  map.mark = InterpretedTensorMap::kMark;
  map.data = static_cast<std::byte*>(spec.data);
  map.element = spec.element;
  map.swizzle = spec.swizzle;
  for (std::size_t i = 0; i < spec.dimensions.size(); ++i) {
    map.stride[i] = i == 0 ? bytes_of(spec.element) : stride_of(spec, i);
    map.size[i] = static_cast<std::uint32_t>(spec.dimensions[i].size);
    map.box[i] = static_cast<std::uint16_t>(spec.dimensions[i].box);
  }
  TensorMap encoded{};
  std::memcpy(&encoded, &map, sizeof map);
  return encoded;
}

/// Returns a type of the element's size. Copies change no bits, so that integers serve where the driver has no such type.
CUtensorMapDataType driver_type(ElementType element) {
  if (element == ElementType::f16) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if (element == ElementType::bf16) return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if (element == ElementType::f32) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const int bytes = bytes_of(element);
  if (bytes == 8) return CU_TENSOR_MAP_DATA_TYPE_INT64;
  return bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_INT32 : CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

CUtensorMapSwizzle driver_swizzle(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::span128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    case Swizzle::span64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::span32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::none:
      break;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

TensorMap encode_for_gpu(const TensorMapSpec& spec) {
  constexpr std::size_t kRank = 5;
  cuuint64_t sizes[kRank], strides[kRank - 1];
  cuuint32_t box[kRank], steps[kRank];
  for (std::size_t i = 0; i < kRank; ++i) {
    sizes[i] = static_cast<cuuint64_t>(spec.dimensions[i].size);
    box[i] = static_cast<cuuint32_t>(spec.dimensions[i].box);
    steps[i] = 1;
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(stride_of(spec, i));
  }
  CUtensorMap map;
  check(
      driver().tensor_map_encode_tiled(&map, driver_type(spec.element), kRank, spec.data, sizes, strides, box,
                                       steps, CU_TENSOR_MAP_INTERLEAVE_NONE, driver_swizzle(spec.swizzle),
                                       CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "cuTensorMapEncodeTiled");
  static_assert(sizeof(CUtensorMap) == sizeof(TensorMap));
  TensorMap encoded;
  std::memcpy(&encoded, &map, sizeof map);
  return encoded;
}

}  // namespace

TensorMap encode_tensor_map(const TensorMapSpec& spec) {
  if (auto violations = violations_of(spec); !violations.empty()) throw InvalidRequest(std::move(violations));
  return interpreting() ? encode_for_interpreter(spec) : encode_for_gpu(spec);
}

}  // namespace fa2
