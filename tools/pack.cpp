// fa2 pack: looks into kernel packs, joins them, and links them into programs.
#include <api/cache_report.h>
#include <api/coverage.h>
#include <api/requests.h>
#include <api/settings.h>
#include <fmt/format.h>
#include <runtime/pack_builder.h>
#include <tools/embed_pack.h>
#include <tools/pack_tables.h>
#include <tools/table.h>
#include <tools/verb.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

namespace fa2::tools {
namespace {

namespace fs = std::filesystem;

struct PackFlags {
  std::string action;
  std::vector<std::string> packs;
  std::string out, requests, name;
  std::string compiler = "cc";
};

/// Returns a pack or an existing cache directory. @throws CacheError.
std::shared_ptr<const KernelStore> store_at(const std::string& name) {
  const fs::path path = cache_directory(name);
  if (is_pack_name(path)) return Pack::open(path);
  return open_store(path);
}

int list(const fs::path& pack, bool json) {
  const std::vector<CacheEntry> entries = cache_entries(pack, false);
  if (json) return print_json(document_of(pack, entries)), kOk;
  print(kernel_table(entries));
  print_paragraph(summary_of(pack, entries));
  return kOk;
}

/// Fails if a kernel is damaged, or if this library would never run it.
int verify(const fs::path& pack, bool json) {
  const std::vector<CacheEntry> entries = cache_entries(pack, true);
  const auto rejected =
      std::ranges::count_if(entries, [](const CacheEntry& e) { return !rejection_of(e).empty(); });
  if (json) {
    print_json(document_of(pack, entries));
  } else {
    print_paragraph(fmt::format("{}, {} rejected", summary_of(pack, entries), rejected));
    std::fflush(stdout);
  }
  for (const CacheEntry& entry : entries) {
    if (const std::string why = rejection_of(entry); !why.empty())
      fmt::print(stderr, "fa2 pack: {}: {}\n", entry.path.string(), why);
  }
  return rejected == 0 ? kOk : kFailed;
}

int stats(const fs::path& pack, bool json) {
  const std::vector<KindStatistics> kinds = statistics_of(cache_entries(pack, true));
  if (json) return print_json(document_of(kinds)), kOk;
  print(statistics_table(kinds));
  print_paragraph(fmt::format("{}: {}", pack.string(), bytes_text(fs::file_size(pack))));
  return kOk;
}

int diff(const fs::path& first, const fs::path& second, bool json) {
  const std::vector<Difference> differences = differences_of(*Pack::open(first), *Pack::open(second));
  if (json) {
    print_json(document_of(differences));
  } else {
    if (!differences.empty()) print(difference_table(differences));
    print_paragraph(fmt::format("{} differences", differences.size()));
  }
  return differences.empty() ? kOk : kFailed;
}

int merge(const std::vector<std::string>& packs, const fs::path& out, bool json) {
  PackBuilder merged(out);
  std::vector<TuningRecord> records;
  for (const std::string& name : packs) {
    const auto store = store_at(name);
    merged.add(*store);
    auto more = parse_json_lines(store->text(kTuningFile), name).records;
    std::ranges::move(more, std::back_inserter(records));
  }
  merged.set_text(kTuningFile, canonical_lines(records));
  merged.write();
  return list(out, json);
}

int covers(const PackFlags& flags, bool json) {
  Stores stores;
  for (const std::string& name : flags.packs) stores.push_back(store_at(name));
  const Coverage coverage = coverage_of(read_requests(flags.requests), stores);
  if (json) {
    print_json(document_of(coverage));
  } else {
    if (!coverage.missing.empty()) print(missing_table(coverage.missing));
    for (const std::string& request : coverage.impossible) print_paragraph(request);
    print_paragraph(fmt::format("{} requests need {} kernels: {} missing, {} requests cannot be computed",
                                coverage.requests, coverage.kernels, coverage.missing.size(),
                                coverage.impossible.size()));
  }
  return coverage.missing.empty() && coverage.impossible.empty() ? kOk : kFailed;
}

int embed(const PackFlags& flags, bool json) {
  const fs::path pack = flags.packs.front(), out = flags.out;
  Pack::open(pack);  // refuses what no program could use
  const auto bytes = read_file(pack);
  const std::string source =
      embedding_source(bytes.value(), flags.name.empty() ? pack.filename().string() : flags.name);
  if (out.extension() == ".o") {
    write_object(out, source, flags.compiler);
  } else {
    TemporaryFile file(out, 0644);
    file.write(source.data(), source.size());
    file.publish();
  }
  if (json) print_json({{"out", out.string()}, {"pack_bytes", bytes->size()}});
  return kOk;
}

struct Action {
  const char* name;
  std::size_t least, most;  ///< packs that it takes
  bool writes;              ///< needs --out
  int (*run)(const PackFlags&, bool json);
};

constexpr std::size_t kManyPacks = 1000;
constexpr Action kActions[] = {
    {"list", 1, 1, false, [](const PackFlags& f, bool json) { return list(f.packs[0], json); }},
    {"verify", 1, 1, false, [](const PackFlags& f, bool json) { return verify(f.packs[0], json); }},
    {"stats", 1, 1, false, [](const PackFlags& f, bool json) { return stats(f.packs[0], json); }},
    {"diff", 2, 2, false, [](const PackFlags& f, bool json) { return diff(f.packs[0], f.packs[1], json); }},
    {"merge", 1, kManyPacks, true, [](const PackFlags& f, bool json) { return merge(f.packs, f.out, json); }},
    {"covers", 1, kManyPacks, false, covers},
    {"embed", 1, 1, true, embed},
};

const Action* action_of(const PackFlags& flags) {
  const auto* found = std::ranges::find(kActions, flags.action,
                                        [](const Action& action) { return std::string(action.name); });
  return found == std::end(kActions) ? nullptr : found;
}

/// Notes flags that do not fit the action.
void complete(const PackFlags& flags, Mistakes& mistakes) {
  const Action* action = action_of(flags);
  if (action == nullptr) return;  // CLI11 names the actions
  const auto require = [&](bool holds, const char* flag, const std::string& rule) {
    if (!holds) mistakes.attempt([&] { throw CLI::ValidationError(flag, rule); });
  };
  const std::size_t count = flags.packs.size();
  require(count >= action->least && count <= action->most, "packs",
          fmt::format("= {} files, must be {}", count, action->least == 2 ? "two with diff" : "one"));
  require(action->writes != flags.out.empty(), "--out", "must come with merge and embed, and only with them");
  require((flags.action == "covers") != flags.requests.empty(), "--requests",
          "must come with covers, and only with it");
  require(flags.action == "embed" || flags.name.empty(), "--name", "must come with embed only");
}

}  // namespace

Verb add_pack(CLI::App& app) {
  CLI::App* verb = add_verb(
      app, "pack", "Look into kernel packs, join them, link them into programs",
      "fa2 precompile --arch h100 --head-dim 128 --out kernels.fa2pack\n"
      "  fa2 pack verify kernels.fa2pack\n"
      "  fa2 pack covers kernels.fa2pack --requests requests.jsonl\n"
      "  fa2 pack merge shard1.fa2pack shard2.fa2pack --out all.fa2pack\n"
      "  fa2 pack embed all.fa2pack --out all.o",
      "list    one line a kernel\n"
      "verify  reads every kernel and checks its checksums; exit status 1 if one is damaged, or was made\n"
      "        by a version of fa2 whose kernels this one does not run\n"
      "stats   kernels, sizes, registers and spills by arch and kind\n"
      "diff    kernels and records that differ between two packs; exit status 1 if any do\n"
      "merge   joins packs and cache directories; two kernels of one name must be equal\n"
      "covers  exit status 1 and a list if a program that makes these requests would miss a kernel.\n"
      "        Needs no GPU. A program writes its requests if it runs with FA2_LOG_REQUESTS=FILE\n"
      "embed   a C source or, if --out ends in .o, an object file that adds the pack before main()");
  const auto flags = std::make_shared<PackFlags>();
  std::vector<std::string> names;
  for (const Action& action : kActions) names.emplace_back(action.name);
  verb->add_option("action", flags->action, "list, verify, stats, diff, merge, covers or embed")
      ->required()
      ->check(CLI::IsMember(names));
  verb->add_option("packs", flags->packs, "Packs; merge and covers also take cache directories")->required();
  verb->add_option("-o,--out", flags->out, "merge, embed: the file to write");
  verb->add_option("--requests", flags->requests, "covers: requests as FA2_LOG_REQUESTS writes them");
  verb->add_option("--name", flags->name, "embed: the pack's name in messages (default: its file name)");
  verb->add_option("--cc", flags->compiler, "embed: the C compiler that makes an object file")
      ->capture_default_str();
  return {verb, [verb, flags] { return action_of(*flags)->run(*flags, wants_json(*verb)); },
          [flags](Mistakes& mistakes) { complete(*flags, mistakes); }};
}

}  // namespace fa2::tools
