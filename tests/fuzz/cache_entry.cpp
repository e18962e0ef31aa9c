// Entries of a cache. An input is an entry, or with "!" in front the length of its code, code and header, to which right
// checksums are added.
#include <core/hash.h>
#include <fa2/errors.h>
#include <runtime/disk_cache.h>

#include <algorithm>

#include "fuzz.h"

namespace fa2::fuzz {
namespace {

KernelBinary binary_of(const std::string& code, const std::string& refused) {
  KernelBinary binary;
  binary.key = "0123456789abcdef0123456789abcdef";
  binary.spec = "f16_d64_none kernel=forward_sm80,tile_m=64 sm_80";
  binary.arch = "sm_80";
  binary.entry = "fa2_entry";
  binary.compiler = "nvrtc 13.0";
  binary.compile_ms = 123.5;
  binary.resources = {168, 1, 2, 3, 1024, 49152, 128};
  binary.code = bytes_of(code);
  binary.refused = refused;
  return binary;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the entry of a header, code and right checksums.
std::string checked(std::string_view input) {
  const std::size_t code_bytes = input.empty() ? 0 : static_cast<unsigned char>(input[0]) % 16;
  const std::string_view code = input.substr(std::min<std::size_t>(1, input.size()), code_bytes);
  const std::string_view header = input.substr(std::min(1 + code.size(), input.size()));
  std::string front = "FA2K";
  for (const std::size_t number : {std::size_t{1}, header.size()}) {
    for (int shift = 0; shift < 32; shift += 8) front += static_cast<char>((number >> shift) & 0xff);
  }
  front += header;
  return front + content_hash(front) + std::string(code);
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const auto& [code, refused] : {std::pair("code", ""), {"", "spills"}, {"0123456789", ""}}) {
    const std::string entry = text_of(encode_entry(binary_of(code, refused)));
    const std::string_view rest = std::string_view(entry).substr(12);
    const std::string header(rest.substr(0, rest.rfind('}') + 1));
    all.push_back(entry);
    all.push_back("!" + std::string(1, static_cast<char>(std::string_view(code).size())) + code + header);
  }
  return all;
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  std::string input = fuzz::text_of(data, size);
  if (input.starts_with('!')) input = fuzz::checked(std::string_view(input).substr(1));
  try {
    const KernelBinary binary = decode_entry(fuzz::bytes_of(input));
    fuzz::require(binary.code.size() <= input.size(), "the code is part of the input");
    fuzz::require(binary.resources.threads >= 0 && binary.resources.threads <= 1024,
                  "threads are in 0..1024");
    const auto bytes = encode_entry(binary);
    fuzz::require(encode_entry(decode_entry(bytes)) == bytes, "what decodes encodes to the same");
    fuzz::require(decode_entry(fuzz::bytes_of(input), false).code.empty(), "no code unless wanted");
  } catch (const CacheError&) {
  }
  return 0;
}
