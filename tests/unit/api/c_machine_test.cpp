// The C interface to the machine. Needs no GPU.
#include <doctest/doctest.h>
#include <fa2/c_machine.h>
#include <runtime/nvrtc.h>

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

TEST_CASE("NVRTC is searched for in FA2_NVRTC, then in the given directories, then by the loader") {
  const char* const set = std::getenv("FA2_NVRTC");
  const auto saved = set != nullptr ? std::optional<std::string>(set) : std::nullopt;
  unsetenv("FA2_NVRTC");
  const std::vector<std::string> found = fa2::nvrtc_candidates({"/pip/nvidia/cu13/lib", "/pip/cu12"});
  REQUIRE(found.size() > 7);
  CHECK(std::vector(found.begin(), found.begin() + 7) ==
        std::vector<std::string>{"/pip/nvidia/cu13/lib/libnvrtc.so.13", "/pip/nvidia/cu13/lib/libnvrtc.so.12",
                                 "/pip/nvidia/cu13/lib/libnvrtc.so", "/pip/cu12/libnvrtc.so.13",
                                 "/pip/cu12/libnvrtc.so.12", "/pip/cu12/libnvrtc.so", "libnvrtc.so.13"});
  setenv("FA2_NVRTC", "/somewhere/libnvrtc.so", 1);
  CHECK(fa2::nvrtc_candidates({"/pip"}) == std::vector<std::string>{"/somewhere/libnvrtc.so"});
  saved ? setenv("FA2_NVRTC", saved->c_str(), 1) : unsetenv("FA2_NVRTC");
}

TEST_CASE("fa2_set_nvrtc_search rejects NULL") {
  const char* const directories[] = {"/pip", nullptr};
  CHECK(fa2_set_nvrtc_search(directories, 2) == FA2_INVALID_REQUEST);
  CHECK(std::string(fa2_last_error()).find("directories[1]") != std::string::npos);
  CHECK(fa2_set_nvrtc_search(nullptr, 1) == FA2_INVALID_REQUEST);
  CHECK(fa2_set_nvrtc_search(directories, 1) == FA2_OK);
  CHECK(fa2_set_nvrtc_search(nullptr, 0) == FA2_OK);
}

TEST_CASE("fa2_machine reports the devices, or why there are none") {
  char* json = nullptr;
  REQUIRE(fa2_machine(&json) == FA2_OK);
  const std::string text = json;
  fa2_string_free(json);
  for (const char* key :
       {"\"version\":\"0.1.0\"", "\"driver\":", "\"gpus\":", "\"nvrtc\":{", "\"cache\":{"}) {
    CAPTURE(key);
    CHECK(text.find(key) != std::string::npos);
  }
  CHECK(fa2_machine(nullptr) == FA2_INVALID_REQUEST);
}

TEST_CASE("fa2_plan_workspace_zeros and fa2_stream_is_capturing reject NULL") {
  std::size_t bytes = 1;
  CHECK(fa2_plan_workspace_zeros(nullptr, &bytes) == FA2_INVALID_REQUEST);
  CHECK(bytes == 0);
  CHECK(fa2_plan_workspace_zeros(nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(fa2_stream_is_capturing(nullptr, nullptr) == FA2_INVALID_REQUEST);
}
