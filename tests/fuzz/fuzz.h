// What every fuzz target shares. A target is one file: seeds(), and an input's run in LLVMFuzzerTestOneInput().
#pragma once

#include <runtime/log.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::fuzz {

/// Returns valid inputs to begin with.
std::vector<std::string> seeds();

/// Ends the program if an invariant does not hold: libFuzzer then keeps the input.
inline void require(bool holds, const char* invariant) {
  if (holds) return;
  std::fprintf(stderr, "invariant violated: %s\n", invariant);
  std::abort();
}

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(static_cast<unsigned char>(c)));
  return bytes;
}

}  // namespace fa2::fuzz

/// Without an input: writes the seeds to the folder that FA2_FUZZ_SEEDS names, and exits.
extern "C" inline __attribute__((used)) int LLVMFuzzerInitialize(int*, char***) {
  fa2::log().set_level(spdlog::level::off);
  const char* const folder = std::getenv("FA2_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  int number = 0;
  for (const std::string& seed : fa2::fuzz::seeds())
    std::ofstream(std::string(folder) + "/" + std::to_string(number++), std::ios::binary) << seed;
  std::exit(0);
}
