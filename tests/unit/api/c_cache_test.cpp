// The C interface to cache directories.
#include <doctest/doctest.h>
#include <fa2/c_cache.h>
#include <runtime/disk_cache.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

using namespace fa2;
using namespace fa2::test;
using Json = nlohmann::json;

namespace {

struct Fixture {
  Fixture() { REQUIRE(cache.store(small_binary())); }

  Json list(int verify) const {
    char* text = nullptr;
    REQUIRE(fa2_cache_list(cache.root().c_str(), verify, &text) == FA2_OK);
    return take(text);
  }
  Json prune(std::int64_t max_bytes) const {
    char* text = nullptr;
    REQUIRE(fa2_cache_prune(cache.root().c_str(), max_bytes, &text) == FA2_OK);
    return take(text);
  }
  static Json take(char* text) {
    Json json = Json::parse(text);
    fa2_string_free(text);
    return json;
  }

  TemporaryDirectory directory;
  DiskCache cache{directory / "cache", kReadWrite};
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "fa2_cache_list lists kernels, and verifies their bytes if asked") {
  const Json found = list(0);
  CHECK(found.at("directory") == cache.root().string());
  REQUIRE(found.at("entries").size() == 1);
  CHECK(found.at("entries")[0].at("key") == kKey);
  CHECK(found.at("entries")[0].at("file_bytes") == found.at("bytes"));
  CHECK(found.at("damaged") == 0);

  std::ofstream(cache.path_of("sm_80", kKey), std::ios::app) << "?";
  CHECK(list(1).at("damaged") == 1);
}

TEST_CASE_FIXTURE(Fixture, "fa2_cache_prune keeps as many bytes as it is told, by default FA2_CACHE_MAX_MB") {
  CHECK(prune(-1).at("entries") == 1);
  const Json removed = prune(0);
  CHECK(removed.at("removed_files") == 1);
  CHECK(removed.at("entries") == 0);
  CHECK(removed.at("bytes") == 0);
  CHECK(list(0).at("entries").empty());
}

TEST_CASE_FIXTURE(Fixture, "cache functions reject NULL, and directories that do not exist") {
  char* text = nullptr;
  CHECK(fa2_cache_list(nullptr, 0, nullptr) == FA2_INVALID_REQUEST);
  CHECK(fa2_cache_prune(nullptr, 0, nullptr) == FA2_INVALID_REQUEST);
  const std::string missing = (directory / "missing").string();
  CHECK(fa2_cache_list(missing.c_str(), 0, &text) == FA2_CACHE);
  CHECK(fa2_cache_prune(missing.c_str(), 0, &text) == FA2_CACHE);
  CHECK(text == nullptr);
  CHECK(std::string(fa2_last_error()).find(missing) != std::string::npos);
}
