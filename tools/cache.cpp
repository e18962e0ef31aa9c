// fa2 cache: lists, verifies and prunes the compiled kernels of a directory.
#include <api/cache_report.h>
#include <fmt/format.h>
#include <runtime/disk_cache.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

namespace fa2::tools {
namespace {

namespace fs = std::filesystem;

struct CacheFlags {
  std::string action;
  std::string dir;
  std::optional<std::uint32_t> max_megabytes;
};

std::uint64_t max_bytes(const CacheFlags& options) {
  if (options.max_megabytes) return std::uint64_t{*options.max_megabytes} << 20;
  return max_cache_bytes();
}

std::string summary(const fs::path& dir, const std::vector<CacheEntry>& entries) {
  const auto untrusted = std::ranges::count(entries, true, &CacheEntry::untrusted);
  return fmt::format("{}: {} kernels, {}{}", dir.string(), std::ssize(entries) - untrusted,
                     bytes_text(bytes_of(entries)),
                     untrusted > 0 ? fmt::format(", {} not trusted", untrusted) : "");
}

std::string description(const CacheEntry& entry) {
  if (!entry.damage.empty()) return (entry.untrusted ? "not trusted: " : "damaged: ") + entry.damage;
  if (!entry.binary.refused.empty()) return entry.binary.spec + ", refused: " + entry.binary.refused;
  return entry.binary.spec;
}

int list(const fs::path& dir, bool json) {
  const std::vector<CacheEntry> entries = cache_entries(dir, false);
  if (json) return print_json(document_of(dir, entries)), kOk;
  Table table({{"key"},
               {"arch"},
               number("bytes"),
               number("compile ms"),
               {"compiler"},
               {"last used"},
               detail("spec")});
  for (const CacheEntry& entry : entries) {
    const bool was_compiled = entry.damage.empty() && entry.binary.refused.empty();
    table.add({entry.path.stem().string().substr(0, kShortKey), entry.binary.arch,
               fmt::format("{}", entry.file_bytes),
               was_compiled ? fmt::format("{:.0f}", entry.binary.compile_ms) : "", entry.binary.compiler,
               time_text(entry.last_used), description(entry)});
  }
  if (!entries.empty()) print(table);
  print_paragraph(summary(dir, entries));
  return kOk;
}

int verify(const fs::path& dir, bool json) {
  const std::vector<CacheEntry> entries = cache_entries(dir, true);
  const auto damaged = std::count_if(entries.begin(), entries.end(),
                                     [](const CacheEntry& entry) { return !entry.damage.empty(); });
  if (json) {
    print_json(document_of(dir, entries));
  } else {
    print_paragraph(fmt::format("{}, {} damaged", summary(dir, entries), damaged));
    std::fflush(stdout);
  }
  for (const CacheEntry& entry : entries) {
    if (!entry.damage.empty()) fmt::print(stderr, "fa2 cache: {}: {}\n", entry.path.string(), entry.damage);
  }
  return damaged == 0 ? kOk : kFailed;
}

int prune(const fs::path& dir, std::uint64_t most, bool json) {
  const DiskCache cache(dir, DiskCache::Access::read_write);
  const DiskCache::Pruned pruned = cache.prune(most);
  const std::vector<CacheEntry> rest = cache.entries();
  if (json) {
    print_json(document_of(dir, pruned, rest));
  } else {
    print_paragraph(
        fmt::format("removed {} files, {}\n{}", pruned.files, bytes_text(pruned.bytes), summary(dir, rest)));
  }
  return kOk;
}

int run(const CacheFlags& options, bool json) {
  if (options.action != "prune" && options.max_megabytes) {
    throw CLI::ValidationError("--max-mb", "must come with prune only");
  }
  const fs::path dir = cache_directory(options.dir);
  if (options.action == "list") return list(dir, json);
  if (options.action == "verify") return verify(dir, json);
  return prune(dir, max_bytes(options), json);
}

}  // namespace

Verb add_cache(CLI::App& app) {
  CLI::App* verb = add_verb(app, "cache", "List, verify or prune the compiled kernels of a cache directory",
                            "fa2 cache prune --max-mb 256",
                            "list    one line a kernel, last used first\n"
                            "verify  reads every file, checks its checksums and who could have written it;\n"
                            "        exit status 1 if one is damaged or not trusted\n"
                            "prune   removes damaged files, then the least recently used ones");
  const auto options = std::make_shared<CacheFlags>();
  verb->add_option("action", options->action, "list, verify or prune")
      ->required()
      ->check(CLI::IsMember({"list", "verify", "prune"}));
  verb->add_option("--dir", options->dir, "Directory (default: the user's own cache)");
  verb->add_option("--max-mb", options->max_megabytes,
                   "prune: megabytes to keep (default: FA2_CACHE_MAX_MB)");
  return {verb, [verb, options] { return run(*options, wants_json(*verb)); }};
}

}  // namespace fa2::tools
