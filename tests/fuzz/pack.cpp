// Kernel packs. An input is a pack, or with "!" in front the numbers and names of its index, to which right checksums are added.
#include <core/hash.h>
#include <fa2/errors.h>
#include <runtime/pack.h>
#include <runtime/pack_builder.h>

#include <algorithm>

#include "fuzz.h"

namespace fa2::fuzz {
namespace {

constexpr std::size_t kPrefixBytes = 16, kHashBytes = 32, kRowBytes = 64 + 3 * 8 + kHashBytes;

/// Returns the pack with the checksum of its index put right, as far as it has one.
std::string checked(std::string pack) {
  if (pack.size() < kPrefixBytes + kHashBytes) return pack;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < 4; ++i)
    rows |= std::size_t{static_cast<unsigned char>(pack[12 + i])} << (8 * i);
  const std::string index =
      pack.substr(kPrefixBytes + kHashBytes, std::min<std::size_t>(rows, 100) * kRowBytes);
  return pack.replace(kPrefixBytes, kHashBytes, content_hash(pack.substr(0, kPrefixBytes) + index));
}

}  // namespace

std::vector<std::string> seeds() {
  KernelBinary binary;
  binary.key = "0123456789abcdef0123456789abcdef";
  binary.spec = "f16_d64_none kernel=forward_sm80,tile_m=64 sm_80";
  binary.arch = "sm_80";
  binary.entry = "fa2_entry";
  binary.resources = {168, 1, 2, 3, 1024, 49152, 128};
  binary.code = bytes_of(std::string(500, 'x'));
  PackBuilder builder("fuzz.fa2pack");
  builder.store(binary);
  builder.set_text("tuning.jsonl", "{}\n");
  std::string pack;
  for (const std::byte byte : builder.encode()) pack += static_cast<char>(byte);
  return {pack, "!" + pack};
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  std::string input = fuzz::text_of(data, size);
  if (input.starts_with('!')) input = fuzz::checked(input.substr(1));
  const std::vector<std::byte> bytes = fuzz::bytes_of(input);
  try {
    const auto pack = Pack::of_memory("fuzz.fa2pack", bytes);
    fuzz::require(pack->bytes() == bytes.size(), "a pack is as large as its bytes");
    for (const CacheEntry& entry : pack->entries(true))
      fuzz::require(!entry.damage.empty() || pack->load(entry.binary.arch, entry.binary.key).has_value(),
                    "a listed kernel can be loaded");
    for (const Pack::Row& row : pack->rows())
      fuzz::require(pack->contents(row).size() == row.size, "contents have their size");
  } catch (const CacheError&) {
  }
  return 0;
}
