// The byte layout of a cache file: round trip, and every kind of damage.
#include <core/hash.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/disk_cache.h>
#include <tests/support/cache_fixtures.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

using namespace fa2;
using namespace fa2::test;

namespace {

std::string damage_of(const std::vector<std::byte>& bytes) {
  try {
    decode_entry(bytes);
    return "";
  } catch (const CacheError& error) {
    return error.what();
  }
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string u32(std::size_t value) {
  std::string text;
  for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>((value >> shift) & 0xff);
  return text;
}

/// Returns an entry with any header and valid checksums, as only an attacker would make.
std::vector<std::byte> forged(const std::string& header, const std::string& code) {
  const std::string front = "FA2K" + u32(1) + u32(header.size()) + header;
  return bytes_of(front + content_hash(front) + code);
}

nlohmann::json good_header(const std::string& code) {
  const std::string text = text_of(encode_entry(small_binary(kKey, code)));
  const std::size_t length = static_cast<unsigned char>(text[8]) + 256u * static_cast<unsigned char>(text[9]);
  return nlohmann::json::parse(text.substr(12, length));
}

}  // namespace

TEST_CASE("a cache entry survives the round trip and has deterministic bytes") {
  KernelBinary binary = small_binary();
  for (int value = 0; value < 256; ++value) binary.code.push_back(static_cast<std::byte>(value));
  const auto bytes = encode_entry(binary);
  CHECK(bytes == encode_entry(binary));

  const KernelBinary back = decode_entry(bytes);
  CHECK(back.key == binary.key);
  CHECK(back.spec == binary.spec);
  CHECK(back.arch == binary.arch);
  CHECK(back.entry == binary.entry);
  CHECK(back.compiler == binary.compiler);
  CHECK(back.compile_ms == binary.compile_ms);
  CHECK(back.resources.registers == 168);
  CHECK(back.resources.spill_store_bytes == 1);
  CHECK(back.resources.spill_load_bytes == 2);
  CHECK(back.resources.stack_bytes == 3);
  CHECK(back.resources.static_shared_bytes == 1024);
  CHECK(back.resources.dynamic_shared_bytes == 49152);
  CHECK(back.resources.threads == 128);
  CHECK(back.code == binary.code);
  CHECK(encode_entry(back) == bytes);

  const KernelBinary header = decode_entry(bytes, false);
  CHECK(header.key == binary.key);
  CHECK(header.code.empty());
}

TEST_CASE("an entry without code and one with unusual text survive too") {
  KernelBinary binary = small_binary(kKey, "");
  binary.spec = "quotes \" and \\ and \n and \xff, which is no UTF-8";
  const KernelBinary back = decode_entry(encode_entry(binary));
  CHECK(back.code.empty());
  CHECK(back.spec.find("quotes \" and \\ and \n") == 0);
}

TEST_CASE("truncation at every length is reported") {
  const auto bytes = encode_entry(small_binary());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    const std::string prefix = "truncated: " + std::to_string(length) + " of ";
    CHECK(damage_of(cut).find(prefix) == 0);
  }
  auto cut = bytes;
  cut.pop_back();
  CHECK(damage_of(cut) ==
        "truncated: " + std::to_string(bytes.size() - 1) + " of " + std::to_string(bytes.size()) + " bytes");
}

TEST_CASE("a flipped bit at every byte is reported") {
  const auto bytes = encode_entry(small_binary());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto flipped = bytes;
      flipped[i] ^= static_cast<std::byte>(1 << bit);
      CHECK_FALSE(damage_of(flipped).empty());
    }
  }
}

TEST_CASE("damage is described precisely") {
  const auto bytes = encode_entry(small_binary());
  const auto with = [&](std::size_t index, int value) {
    auto changed = bytes;
    changed[index] = static_cast<std::byte>(value);
    return damage_of(changed);
  };
  CHECK(with(0, 'X') == "not a kernel file: it does not start with FA2K");
  CHECK(with(4, 7) == "format version 7, expected 1");
  CHECK(with(11, 0xff).find("header length 42") == 0);
  CHECK(with(20, '#') == "header checksum differs");
  CHECK(with(bytes.size() - 1, '#') == "code checksum differs");

  auto longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(damage_of(longer) ==
        std::to_string(bytes.size() + 1) + " bytes, expected " + std::to_string(bytes.size()));
}

TEST_CASE("hostile headers with valid checksums are rejected") {
  const std::string code = "the machine code";
  REQUIRE(damage_of(forged(good_header(code).dump(), code)).empty());

  for (const char* text : {"", "null", "[]", "{}", "{", "\"text\"", "1e999", "\xff\xfe"}) {
    CAPTURE(text);
    CHECK_FALSE(damage_of(forged(text, code)).empty());
  }
  CHECK_FALSE(damage_of(forged(std::string(500000, '['), code)).empty());

  const auto changed = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json header = good_header(code);
    change(header);
    return damage_of(forged(header.dump(), code));
  };
  const nlohmann::json good = good_header(code);
  for (auto field = good.begin(); field != good.end(); ++field) {
    CAPTURE(field.key());
    const bool is_optional = field.key() == "library" || field.key() == "templates";  // older files lack them
    CHECK(changed([&](nlohmann::json& header) { header.erase(field.key()); }).empty() == is_optional);
    CHECK_FALSE(changed([&](nlohmann::json& header) { header[field.key()] = nullptr; }).empty());
  }
  CHECK_FALSE(changed([](nlohmann::json& header) { header["code_bytes"] = -1; }).empty());
  CHECK_FALSE(changed([](nlohmann::json& header) { header["code_bytes"] = 1e30; }).empty());
  CHECK_FALSE(changed([](nlohmann::json& header) { header["code_bytes"] = UINT64_MAX; }).empty());
  CHECK_FALSE(changed([](nlohmann::json& header) { header["code_bytes"] = INT64_MAX; }).empty());
  CHECK_FALSE(changed([](nlohmann::json& header) { header["resources"]["threads"] = 1e30; }).empty());
  CHECK_FALSE(changed([](nlohmann::json& header) { header["resources"]["threads"] = 1LL << 40; }).empty());

  std::string deep = good.dump();
  const std::string field = "\"code_bytes\":";
  deep.replace(deep.find(field) + field.size(), 2, std::string(200000, '[') + std::string(200000, ']'));
  CHECK_FALSE(damage_of(forged(deep, code)).empty());
}

TEST_CASE("resources that no kernel has are rejected, even with valid checksums") {
  const std::string code = "the machine code";
  const auto with = [&](const char* name, const nlohmann::json& value) {
    nlohmann::json header = good_header(code);
    header["resources"][name] = value;
    return damage_of(forged(header.dump(), code));
  };
  const std::pair<const char*, std::int64_t> most[] = {
      {"registers", 255},         {"spill_store_bytes", 512 << 10}, {"spill_load_bytes", 512 << 10},
      {"stack_bytes", 512 << 10}, {"static_shared_bytes", 1 << 20}, {"dynamic_shared_bytes", 1 << 20},
      {"threads", 1024}};
  CHECK(good_header(code)["resources"].size() == std::size(most));
  for (const auto& field : most) {
    const char* const name = field.first;
    const std::int64_t limit = field.second;
    CAPTURE(name);
    CHECK(with(name, limit).empty());
    for (const std::int64_t value : {std::int64_t{-1}, limit + 1, std::int64_t{INT32_MAX},
                                     std::int64_t{INT32_MIN}, std::int64_t{1} << 32, INT64_MAX}) {
      CAPTURE(value);
      CHECK(with(name, value).find(std::string("field \"") + name + "\"") == 0);
    }
    for (const nlohmann::json& value : {nlohmann::json(1.5), nlohmann::json("7"), nlohmann::json(true)}) {
      CHECK_FALSE(with(name, value).empty());
    }
  }
  CHECK(with("registers", 0).empty());  // as an interpreted kernel has
  CHECK(with("threads", 0) == "field \"threads\" = 0, must be a positive multiple of 32");
  CHECK(with("threads", 33) == "field \"threads\" = 33, must be a positive multiple of 32");

  for (const double value : {-1.0, 1e10}) {
    nlohmann::json header = good_header(code);
    header["compile_ms"] = value;
    CHECK(damage_of(forged(header.dump(), code)).find("field \"compile_ms\"") == 0);
  }
}

TEST_CASE("a refusal has no threads") {
  KernelBinary refusal = small_binary(kKey, "");
  refusal.resources = {};
  refusal.refused = "spills (nvrtc 12.3)";
  CHECK(decode_entry(encode_entry(refusal)).refused == refusal.refused);
}
