// The words of --lengths.
#include <tools/length_spec.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "fuzz.h"

namespace fa2::fuzz {

std::vector<std::string> seeds() {
  return {"equal:2048",     "lognormal:4096", "lognormal:4096:0.5",
          "uniform:1:4096", "100,200,0",      "lognormal:2147482624:10"};
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  constexpr std::int32_t kLongest = 2147482624;
  constexpr std::int64_t kCount = 5;
  try {
    const tools::LengthSpec spec("--lengths", fuzz::text_of(data, size));
    fuzz::require(spec.mean() >= 0 && spec.mean() <= kLongest, "the mean is a length");
    const std::vector<std::int32_t> lengths = spec.lengths(kCount);
    fuzz::require(static_cast<std::int64_t>(lengths.size()) == spec.count().value_or(kCount),
                  "there are as many as wanted");
    const auto is_length = [](std::int32_t length) { return length >= 0 && length <= kLongest; };
    fuzz::require(std::ranges::all_of(lengths, is_length), "each is in 0..2147482624");
    fuzz::require(spec.lengths(kCount) == lengths, "they are the same each time");
  } catch (const CLI::ValidationError&) {
  }
  return 0;
}
