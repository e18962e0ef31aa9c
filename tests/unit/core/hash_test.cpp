// Content hashes: published values, form, sensitivity.
#include <core/hash.h>
#include <doctest/doctest.h>

#include <set>
#include <string>

using fa2::content_hash;

TEST_CASE("content_hash is XXH3-128 in canonical order") {
  // The XXH3 specification publishes this value for the empty string.
  CHECK(content_hash("") == "99aa06d3014798d86001c324468d497f");
  CHECK(content_hash("a").size() == 32);
  CHECK(content_hash("a").find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("content_hash depends on every byte, zeros and the length included") {
  std::set<std::string> seen;
  for (std::size_t length = 0; length <= 300; ++length) seen.insert(content_hash(std::string(length, '\0')));
  CHECK(seen.size() == 301);

  const std::string text(1000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    seen.insert(content_hash(changed));
  }
  CHECK(seen.size() == 1301);
  CHECK(content_hash(text) == content_hash(std::string(1000, 'x')));
}
