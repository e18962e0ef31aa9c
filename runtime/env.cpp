// The table of environment variables, and the only getenv.
#include <core/enum_words.h>
#include <core/text.h>
#include <fa2/config.h>
#include <fmt/format.h>
#include <runtime/env.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

namespace fa2 {
namespace {

using Found = std::vector<Violation>;

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = text.find(separator)) != text.npos; text.remove_prefix(end + separator.size()))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

/// Returns whether all of `text` is a number in 0..most.
bool is_number(std::string_view text, std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && number <= most;
}

void check_word(const EnvVariable& variable, const std::string& value, Found& found) {
  for (const std::string_view word : split(variable.values, ", ")) {
    if (value == word) return;
  }
  found.push_back(
      {std::string(variable.name), in_quotes(value), fmt::format("must be one of {}", variable.values)});
}

/// Returns whether `text` matches `pattern`. A pattern that ends in "=N" stands for any 32-bit number N.
bool matches(std::string_view text, std::string_view pattern) {
  if (!pattern.ends_with("=N")) return text == pattern;
  const std::string_view start = pattern.substr(0, pattern.size() - 1);
  return text.starts_with(start) &&
         is_number(text.substr(start.size()), std::numeric_limits<std::uint32_t>::max());
}

/// Accepts at most one word per group: "early or late, seed=N".
void check_words(const EnvVariable& variable, const std::string& value, Found& found) {
  const std::vector<std::string_view> groups = split(variable.values, ", ");
  std::vector<std::string_view> given(groups.size());
  for (const std::string_view word : split(value, ",")) {
    const auto group = std::ranges::find_if(groups, [&](std::string_view words) {
      return std::ranges::any_of(split(words, " or "), [&](std::string_view w) { return matches(word, w); });
    });
    if (group == groups.end()) {
      found.push_back({std::string(variable.name), in_quotes(word),
                       fmt::format("must be words of {}, separated by commas", variable.values)});
      continue;
    }
    std::string_view& before = given[static_cast<std::size_t>(group - groups.begin())];
    if (!before.empty())
      found.push_back({std::string(variable.name), in_quotes(word),
                       fmt::format("must not come with {}: give one of the two", in_quotes(before))});
    before = word;
  }
}

void check_number(const EnvVariable& variable, const std::string& value, Found& found) {
  std::uint64_t most = 0;
  const std::string_view digits = split(variable.values, "..").back();
  std::from_chars(digits.data(), digits.data() + digits.size(), most);
  if (is_number(value, most)) return;
  found.push_back({std::string(variable.name), in_quotes(value),
                   fmt::format("must be a whole number in {}", variable.values)});
}

void check_config(const EnvVariable& variable, const std::string& value, Found& found) {
  try {
    parse_config(value);
  } catch (const InvalidRequest& error) {
    for (const Violation& broken : error.violations())
      found.push_back({fmt::format("{}: {}", variable.name, broken.field), broken.value, broken.rule});
  }
}

constexpr EnvVariable kVariables[] = {
    {"FA2_CACHE_DIR", "$XDG_CACHE_HOME/fa2, else $HOME/.cache/fa2", "a directory",
     "where compiled kernels are stored", nullptr},
    {"FA2_CACHE_PATH", "", "directories, packs", "read-only caches, ':' separated, searched first", nullptr},
    {"FA2_CACHE_MAX_MB", "512", "0..4294967295",
     "size in MB beyond which the least recently used kernels are removed", check_number},
    {"FA2_CACHE_TRUST", "0", "0, host, 1",
     "host: interpreted kernels, code for this CPU, also from FA2_CACHE_PATH; 1: caches that others could "
     "write",
     check_word},
    {"FA2_JIT", word_of(JitMode::on), joined_words<JitMode>(),
     "on: compile what no cache holds, and on other cores what may follow; off: never compile; use the most "
     "similar cached kernel, else fail; lazy: compile only what a call needs",
     check_word},
    {"FA2_TUNE", word_of(TuneMode::learn), joined_words<TuneMode>(),
     "off: the heuristic alone; stored: tuning records, too; learn: besides, measure what has none for later "
     "processes; adaptive: and follow it at once; now: calls wait for it",
     check_word},
    {"FA2_TUNE_BUDGET_MS", "3000", "0..3600000", "longest search of FA2_TUNE=now, in milliseconds",
     check_number},
    {"FA2_CONFIG", "", "kernel=NAME,field=number,...",
     "pins a kernel's config (default: forward_sm80's): kernel=forward_sm90,tile_n=64", check_config},
    {"FA2_NVRTC", "", "a file", "path of libnvrtc; no other one is tried", nullptr},
    {"FA2_NCCL", "", "a file", "path of libnccl; no other one is tried", nullptr},
    {"FA2_PEER_MEMORY", "1", "0, 1",
     "0: plans of several GPUs exchange data by their communicator alone, not through memory that ranks map",
     check_word},
    {"FA2_DEVICE", "auto", "auto, interpreter", "auto: the current GPU, else the interpreter", check_word},
    {"FA2_LOG_REQUESTS", "", "a file",
     "where each new problem is appended as a line, for fa2 precompile --requests", nullptr},
    {"FA2_CHECK", "0", "0, 1",
     "1: check tables of lengths and pages before each launch, which then waits for the stream", check_word},
    {"FA2_INTERPRETER", "early,checked", "early or late, checked or unchecked, seed=N",
     "options of the interpreter, separated by ','", check_words},
    {"FA2_CXX", "c++, g++, clang++", "a command", "C++ compiler for interpreted kernels", nullptr},
    {"FA2_KEEP_SOURCE", "", "a directory", "where sources of interpreted kernels stay for a debugger",
     nullptr},
    {"FA2_LOG", "warn", "trace, debug, info, warn, error, critical, off",
     "the log's level; debug: a line per new plan", check_word},
};

constexpr std::string_view kSystemVariables[] = {"XDG_CACHE_HOME", "HOME", "CUDA_HOME", "CUDA_PATH",
                                                 "COLUMNS"};
/// The Rust crate reads these when it is built, and a shell may keep them.
constexpr std::string_view kBuildVariables[] = {"FA2_LIB_DIR", "FA2_PACK"};
/// By these, torchrun, Open MPI, MPICH and Slurm tell a process the number of ranks.
constexpr std::string_view kRankCounts[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                            "SLURM_STEP_NUM_TASKS"};

/// Returns the variable; nullptr if the table lacks it.
const EnvVariable* find(std::string_view name) {
  const auto* found = std::ranges::find(kVariables, name, &EnvVariable::name);
  return found == std::end(kVariables) ? nullptr : found;
}

bool is_known(std::string_view name) {
  const auto lists = [&](const auto& names) { return std::ranges::find(names, name) != std::end(names); };
  return find(name) != nullptr || lists(kSystemVariables) || lists(kRankCounts);
}

bool is_for_builds(std::string_view name) {
  return std::ranges::find(kBuildVariables, name) != std::end(kBuildVariables);
}

const EnvVariable& variable_of(std::string_view name) {
  const EnvVariable* variable = find(name);
  if (variable == nullptr)
    throw Error(ErrorCode::internal, fmt::format("\"{}\" is not in the table of variables", name));
  return *variable;
}

}  // namespace

std::span<const EnvVariable> environment() {
  return kVariables;
}

std::span<const std::string_view> rank_counts() {
  return kRankCounts;
}

std::optional<std::string> env(std::string_view name) {
  const std::string text(name);
  if (!is_known(name))
    throw Error(ErrorCode::internal, "env(\"" + text + "\"): not in the table of variables");
  const char* value = std::getenv(text.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::vector<Violation> violations_of_variable(std::string_view name, const std::string& value) {
  const EnvVariable& variable = variable_of(name);
  Found found;
  if (variable.check != nullptr) variable.check(variable, value, found);
  return found;
}

std::string checked_env(std::string_view name) {
  const auto value = env(name);
  if (!value) return std::string(variable_of(name).default_value);
  Found found = violations_of_variable(name, *value);
  if (!found.empty()) throw InvalidRequest(std::move(found));
  return *value;
}

std::vector<Violation> unknown_variables() {
  std::vector<std::string_view> names;
  for (const EnvVariable& variable : kVariables) names.push_back(variable.name);
  Found found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    const std::string_view value = text.substr(std::min(name.size() + 1, text.size()));
    if (!name.starts_with("FA2_") || value.empty() || find(name) != nullptr || is_for_builds(name)) continue;
    const std::string_view meant = nearest(name, names);
    found.push_back({std::string(name), in_quotes(value),
                     meant.empty() ? "must be a variable of fa2: see `fa2 info`"
                                   : fmt::format("must be a variable of fa2: did you mean {}?", meant)});
  }
  return found;
}

}  // namespace fa2
