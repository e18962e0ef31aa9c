// XXH3, 128 bits, in its canonical (big-endian) form, so that keys read the same on every machine.
#define XXH_INLINE_ALL
#include <core/hash.h>
#include <xxhash.h>

namespace fa2 {

std::string content_hash(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace fa2
