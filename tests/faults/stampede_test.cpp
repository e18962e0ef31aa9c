// Many processes that want the same kernels at once: each kernel is compiled once where locks work, and is right everywhere.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <tests/support/temporary_directory.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "campaign.h"
#include "kernels.h"
#include "subject.h"
#include "system_calls.h"

using namespace fa2::test;
namespace fs = std::filesystem;

namespace {

constexpr int kProcesses = 64, kKeys = 16;

/// Appends a line, as one write.
void note(const fs::path& path, const std::string& line) {
  const fa2::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  fa2::write_all(file, line.data(), line.size(), path);
}

/// Returns 0 if every kernel is right.
int get_all(const fs::path& root, const fs::path& compiled, std::uint64_t seed) {
  const ScopedClock clocks({.is_frozen = true});  // no process is too slow for another's patience
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) keys.push_back(key_of(std::to_string(i)));
  std::ranges::shuffle(keys, Random(seed));
  set_random(static_cast<unsigned>(seed));
  const auto cache = cache_in(root, {}, [&](const std::string& key) {
    note(compiled, key + "\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  const auto is_wrong = [&](const std::string& key) {
    return cache->get(source_of(key)).binary->code != code_of(key);
  };
  return std::ranges::any_of(keys, is_wrong) ? 1 : 0;
}

Verdict stampede(std::uint64_t seed, bool with_locks) {
  const TemporaryDirectory directory;
  const fs::path root = directory / "root", compiled = directory / "compiled";
  describe(fmt::format("{} processes, {} keys, {}", kProcesses, kKeys, with_locks ? "locks" : "no locks"));
  std::vector<pid_t> children;
  {
    const Pipe start;
    for (int i = 0; i < kProcesses; ++i) {
      children.push_back(fork_child([&] {
        if (!with_locks) fail_locks(ENOLCK);
        start.receive();
        return get_all(root, compiled, seed * kProcesses + static_cast<std::uint64_t>(i));
      }));
    }
    for (int i = 0; i < kProcesses; ++i) start.send();
    for (const pid_t child : children) {
      if (const int status = wait_for(child); status != 0)
        return wrong(fmt::format("a process ended with {}", status));
    }
  }
  const std::string lines = read_text(compiled);
  const auto compilations = std::ranges::count(lines, '\n');
  if (with_locks && compilations != kKeys)
    return wrong(fmt::format("{} compilations of {} kernels", compilations, kKeys));
  const auto entries = fa2::DiskCache(root, kReadWrite).entries(true);
  const bool all_right = std::ranges::all_of(entries, [](const fa2::CacheEntry& entry) {
    return entry.damage.empty() && entry.binary.code == code_of(entry.binary.key);
  });
  if (entries.size() != kKeys || !all_right) return wrong("the directory does not hold the kernels");
  return without_leftovers(root);
}

}  // namespace

TEST_CASE("stampede of processes") {
  inject("stampede, 64 x 16", random_seeds(2, 20), [](std::uint64_t seed) { return stampede(seed, true); });
  inject("stampede without locks", random_seeds(2, 20),
         [](std::uint64_t seed) { return stampede(seed, false); });
}
