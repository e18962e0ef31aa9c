// What encode_tensor_map() reports about a description that TMA does not support.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/device.h>
#include <runtime/tensor_map.h>

#include <string>
#include <vector>

using namespace fa2;

namespace {

/// Returns "field = value: rule" of each violation.
std::vector<std::string> sentences_of(const TensorMapSpec& spec) {
  const ScopedContext current(kInterpreterDevice);
  std::vector<std::string> sentences;
  try {
    encode_tensor_map(spec);
  } catch (const InvalidRequest& error) {
    for (const Violation& v : error.violations())
      sentences.push_back(v.field + " = " + v.value + ": " + v.rule);
  }
  return sentences;
}

}  // namespace

TEST_CASE("every rule of a tensor map has a sentence, with the field and its value") {
  TensorMapSpec spec;
  spec.data = reinterpret_cast<void*>(0x1008);
  spec.swizzle = Swizzle::span64;
  spec.dimensions = {{{0, 0, 16}, {4, 24, 257}, {1, 7, 1}, {2, std::int64_t{1} << 40, 1}, {1, 0, 1}}};
  CHECK(sentences_of(spec) ==
        std::vector<std::string>{
            "data = 0x1008: must be a multiple of 16 bytes, and not null",
            "dimensions[0].size = 0: must be 1..2^32", "dimensions[1].box = 257: must be 1..256",
            "dimensions[1].stride = 24: must be a positive multiple of 16 bytes below 2^40",
            "dimensions[3].stride = 1099511627776: must be a positive multiple of 16 bytes below 2^40",
            "dimensions[0].box = 16: must be the swizzle's span of 64 bytes"});
  spec = {};
  spec.dimensions[0] = {40, 0, 12};
  CHECK(sentences_of(spec) ==
        std::vector<std::string>{"data = 0x0: must be a multiple of 16 bytes, and not null",
                                 "dimensions[0].box = 12: must be a multiple of 16 bytes"});
  spec.data = reinterpret_cast<void*>(0x1000);
  spec.dimensions[0].box = 24;
  CHECK(sentences_of(spec).empty());
}
