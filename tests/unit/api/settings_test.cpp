// The settings that follow from a Context's options and environment variables.
#include <api/settings.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/process.h>
#include <tests/support/temporary_directory.h>

#include <fstream>
#include <map>
#include <string>

namespace {

using namespace fa2;

Environment table(std::map<std::string, std::string, std::less<>> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

std::vector<Violation> violations(const ContextOptions& options, const Environment& environment) {
  try {
    settings_of(options, environment);
  } catch (const InvalidRequest& error) {
    return error.violations();
  }
  return {};
}

}  // namespace

TEST_CASE("defaults") {
  const Settings settings = settings_of({}, table({}));
  CHECK(settings.tune == TuneMode::learn);
  CHECK(settings.tune_budget_seconds == 3.0);
  CHECK(settings.records_until == utc_text(process_start()));
  CHECK(settings.jit == JitMode::on);
  CHECK_FALSE(settings.pinned.has_value());
  CHECK(settings.read_only_caches.empty());
  CHECK_FALSE(settings.check);
}

TEST_CASE("one rank of several does not measure beside the program, unless it is told to") {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    CAPTURE(name);
    CHECK(settings_of({}, table({{name, "8"}})).tune == TuneMode::stored);
    CHECK(settings_of({}, table({{name, "8"}})).records_until == utc_text(process_start()));
    CHECK(settings_of({}, table({{name, "1"}})).tune == TuneMode::learn);
    for (const auto& [word, mode] :
         {std::pair("now", TuneMode::now), std::pair("adaptive", TuneMode::adaptive),
          std::pair("off", TuneMode::off)})
      CHECK(settings_of({}, table({{name, "8"}, {"FA2_TUNE", word}})).tune == mode);
  }
}

TEST_CASE("FA2_CHECK turns on the check of sequence tables") {
  CHECK(settings_of({}, table({{"FA2_CHECK", "1"}})).check);
  CHECK_FALSE(settings_of({}, table({{"FA2_CHECK", "0"}})).check);
  CHECK(violations({}, table({{"FA2_CHECK", "yes"}})).size() == 1);
}

TEST_CASE("environment variables set what the options leave open") {
  const Environment environment = table({{"FA2_TUNE", "stored"},
                                         {"FA2_TUNE_BUDGET_MS", "250"},
                                         {"FA2_JIT", "off"},
                                         {"FA2_CONFIG", "tile_m=64,warps=4"},
                                         {"FA2_CACHE_PATH", "/a::/b c:"}});
  Settings settings = settings_of({}, environment);
  CHECK(settings.tune == TuneMode::stored);
  CHECK(settings.records_until.empty());
  CHECK(settings.tune_budget_seconds == 0.25);
  CHECK(settings.jit == JitMode::off);
  REQUIRE(settings.pinned.has_value());
  CHECK(settings.pinned->tile_m == 64);
  CHECK(settings.pinned_by == "FA2_CONFIG");
  CHECK(settings.read_only_caches == std::vector<std::filesystem::path>{"/a", "/b c"});

  ContextOptions options;
  options.cache_dir = "/cache";
  options.read_only_caches = {{"/pack"}};
  options.tune = TuneMode::off;
  options.tune_budget_ms = 0;
  options.jit = JitMode::on;
  options.config = KernelConfig{};
  settings = settings_of(options, environment);
  CHECK(settings.cache_dir == "/cache");
  CHECK(settings.read_only_caches == std::vector<std::filesystem::path>{"/pack"});
  CHECK(settings.tune == TuneMode::off);
  CHECK(settings.tune_budget_seconds == 0);
  CHECK(settings.jit == JitMode::on);
  CHECK(*settings.pinned == KernelConfig{});
  CHECK(settings.pinned_by == "ContextOptions::config");
}

TEST_CASE("every bad value is named, with the allowed ones") {
  const auto found = violations({}, table({{"FA2_TUNE", "foo"},
                                           {"FA2_TUNE_BUDGET_MS", "3s"},
                                           {"FA2_JIT", "no"},
                                           {"FA2_CONFIG", "tile_q=3"}}));
  REQUIRE(found.size() == 4);
  CHECK(found[0].field == "FA2_JIT");
  CHECK(found[0].rule == "must be one of on, off, lazy");
  CHECK(found[1].field == "FA2_TUNE");
  CHECK(found[1].value == "\"foo\"");
  CHECK(found[1].rule == "must be one of off, stored, learn, adaptive, now");
  CHECK(found[2].field == "FA2_TUNE_BUDGET_MS");
  CHECK(found[2].value == "\"3s\"");
  CHECK(found[3].field == "FA2_CONFIG: config field \"tile_q\"");

  CHECK(violations({}, table({{"FA2_TUNE_BUDGET_MS", "-1"}})).size() == 1);
  CHECK(violations({}, table({{"FA2_TUNE_BUDGET_MS", "99999999999999999999"}})).size() == 1);
  ContextOptions options;
  options.tune_budget_ms = -5;
  const auto budget = violations(options, table({}));
  REQUIRE(budget.size() == 1);
  CHECK(budget[0].field == "tune_budget_ms");
  CHECK(budget[0].value == "-5");
}

TEST_CASE("a context also checks variables that it does not read itself, unless an option overrides them") {
  const auto found = violations({}, table({{"FA2_CACHE_MAX_MB", "abc"},
                                           {"FA2_CACHE_TRUST", "yes"},
                                           {"FA2_DEVICE", "tpu"},
                                           {"FA2_INTERPRETER", "later"},
                                           {"FA2_LOG", "verbose"}}));
  CHECK(found.size() == 5);
  ContextOptions options;
  options.tune = TuneMode::off;
  options.tune_budget_ms = 1;
  options.config = KernelConfig{};
  options.jit = JitMode::on;
  CHECK(violations(options, table({{"FA2_TUNE", "foo"},
                                   {"FA2_TUNE_BUDGET_MS", "3s"},
                                   {"FA2_JIT", "no"},
                                   {"FA2_CONFIG", "tile_q=3"}}))
            .empty());
}

TEST_CASE("a directory that does not exist gives a warning that names its setting") {
  const test::TemporaryDirectory dir;
  const std::string there = dir.path().string(), not_there = (dir / "none").string();
  const Settings settings = settings_of({}, table({{"FA2_CACHE_PATH", there + ":" + not_there}}));
  REQUIRE(settings.doubts.size() == 1);
  CHECK(settings.doubts[0].field == "FA2_CACHE_PATH");
  CHECK(settings.doubts[0].value == "\"" + not_there + "\"");

  std::ofstream(dir / "file") << "no directory";
  ContextOptions options;
  options.cache_dir = (dir / "file").string();
  options.read_only_caches = {{not_there}};
  const Settings by_options = settings_of(options, table({{"FA2_CACHE_PATH", "/elsewhere"}}));
  REQUIRE(by_options.doubts.size() == 2);
  CHECK(by_options.doubts[0].field == "read_only_caches");
  CHECK(by_options.doubts[1].field.find("FA2_CACHE_DIR") != std::string::npos);
}

TEST_CASE("settings: a kernel that no plan chooses must not be pinned, because the pin would be ignored") {
  const auto message = [](const std::string& config) {
    const auto found = violations({}, table({{"FA2_CONFIG", config}}));
    return found.size() == 1 ? to_string(found[0]) : std::to_string(found.size()) + " violations";
  };
  const std::string merge = message("kernel=merge");
  CHECK(merge.starts_with("FA2_CONFIG: kernel = merge, must be one of forward_sm80, forward_split, "));
  CHECK(merge.find(
            ", backward_sinks, backward_captures, backward_sm80, backward_sm90, backward_ordered_sm90") !=
        std::string::npos);
  CHECK(merge.ends_with(": other kernels have no config to choose"));
  for (const char* none : {"backward_convert_sm80", "backward_convert_sm90", "dropout_mask", "append"}) {
    CAPTURE(none);
    CHECK(message(std::string("kernel=") + none).find("FA2_CONFIG: kernel = ") == 0);
  }
  CHECK(message("kernel=forward_sm70").find("config field \"kernel\" = \"forward_sm70\", must be one of") !=
        std::string::npos);
  ContextOptions options;
  options.config = KernelConfig{.kernel = static_cast<KernelId>(99)};
  const auto found = violations(options, table({}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].field == "ContextOptions::config: kernel");
  CHECK(found[0].value == "99");
  for (const char* pinnable : {"kernel=backward_dk_dv_sm80", "kernel=backward_sm90,tile_n=80"})
    CHECK(message(pinnable) == "0 violations");
}
