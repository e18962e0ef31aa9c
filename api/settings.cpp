// Reads the options of a Context and the environment variables behind them.
#include <api/settings.h>
#include <fa2/errors.h>
#include <runtime/disk_cache.h>
#include <runtime/env.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace fa2 {
namespace {

/// Collects what is wrong, so that one error names all of it.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  template <class Value>
  Value one_of(const char* name, std::initializer_list<std::pair<std::string_view, Value>> values,
               Value otherwise) {
    const auto text = environment_(name);
    if (!text) return otherwise;
    std::string allowed;
    for (const auto& [word, value] : values) {
      if (*text == word) return value;
      allowed += (allowed.empty() ? "" : ", ") + std::string(word);
    }
    broken_.push_back({name, "\"" + *text + "\"", "must be one of " + allowed});
    return otherwise;
  }

  std::int64_t milliseconds(const char* name, std::int64_t otherwise) {
    const auto text = environment_(name);
    if (!text) return otherwise;
    std::int64_t value = 0;
    const char* const end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc() || stop != end) {
      broken_.push_back({name, "\"" + *text + "\"", "must be a whole number of milliseconds, as in 3000"});
      return otherwise;
    }
    return in_range(name, value);
  }

  std::int64_t in_range(const char* name, std::int64_t milliseconds) {
    constexpr std::int64_t kHour = 3600 * 1000;
    if (milliseconds < 0 || milliseconds > kHour) {
      broken_.push_back({name, std::to_string(milliseconds), "must be 0..3600000 milliseconds"});
    }
    return milliseconds;
  }

  std::optional<KernelConfig> config(const char* name) {
    const auto text = environment_(name);
    if (!text) return std::nullopt;
    try {
      return parse_config(*text);
    } catch (const InvalidProblem& error) {
      for (Violation violation : error.violations()) {
        violation.field = std::string(name) + ": " + violation.field;
        broken_.push_back(std::move(violation));
      }
      return std::nullopt;
    }
  }

  void finish() {
    if (!broken_.empty()) throw InvalidProblem(std::move(broken_));
  }

 private:
  const Environment& environment_;
  std::vector<Violation> broken_;
};

std::vector<std::filesystem::path> split_paths(const std::string& text) {
  std::vector<std::filesystem::path> paths;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) paths.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

}  // namespace

Settings settings_of(const ContextOptions& options, const Environment& environment) {
  Reader reader(environment);
  Settings settings;
  settings.cache_dir = options.cache_dir ? std::filesystem::path(*options.cache_dir) : default_cache_dir();
  if (options.read_only_caches) {
    settings.read_only_caches.assign(options.read_only_caches->begin(), options.read_only_caches->end());
  } else {
    settings.read_only_caches = split_paths(environment("FA2_CACHE_PATH").value_or(""));
  }
  settings.tune =
      options.tune ? *options.tune
                   : reader.one_of<TuneMode>(
                         "FA2_TUNE",
                         {{"off", TuneMode::off}, {"stored", TuneMode::stored}, {"search", TuneMode::search}},
                         TuneMode::search);
  const std::int64_t budget_ms = options.tune_budget_ms
                                     ? reader.in_range("tune_budget_ms", *options.tune_budget_ms)
                                     : reader.milliseconds("FA2_TUNE_BUDGET_MS", 3000);
  settings.tune_budget_seconds = static_cast<double>(budget_ms) * 1e-3;
  settings.pinned = options.config ? options.config : reader.config("FA2_CONFIG");
  settings.pinned_by = options.config ? "ContextOptions::config" : "FA2_CONFIG";
  settings.jit = options.jit ? *options.jit
                             : reader.one_of<JitMode>("FA2_JIT", {{"on", JitMode::on}, {"off", JitMode::off}},
                                                      JitMode::on);
  reader.finish();
  return settings;
}

Settings settings_of(const ContextOptions& options) {
  return settings_of(options, [](std::string_view name) { return env(name); });
}

std::filesystem::path tuning_file(const std::filesystem::path& cache_dir) {
  return cache_dir / "tuning.jsonl";
}

}  // namespace fa2
