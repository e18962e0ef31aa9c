// Tables and documents of packs.
#include <api/cache_report.h>
#include <fmt/format.h>
#include <tools/pack_tables.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace fa2::tools {
namespace {

/// Returns "forward_sm90" for "bf16_d128_none sm_90a kernel=forward_sm90,tile_m=128".
std::string kind_of(const std::string& spec) {
  constexpr std::string_view kField = "kernel=";
  const std::size_t begin = spec.find(kField);
  if (begin == std::string::npos) return "unknown";
  const std::size_t name = begin + kField.size();
  return spec.substr(name, spec.find_first_of(", ", name) - name);
}

std::string detail_of(const CacheEntry& entry) {
  if (const std::string why = rejection_of(entry); !why.empty()) return "rejected: " + why;
  if (!entry.binary.refused.empty()) return entry.binary.spec + ", refused: " + entry.binary.refused;
  return entry.binary.spec;
}

}  // namespace

std::string rejection_of(const CacheEntry& entry) {
  return entry.damage.empty() ? why_outdated(entry.binary) : entry.damage;
}

Table kernel_table(const std::vector<CacheEntry>& entries) {
  Table table({{"key"}, {"arch"}, number("bytes"), {"compiler"}, {"fa2"}, detail("spec")});
  for (const CacheEntry& entry : entries)
    table.add({entry.path.filename().string().substr(0, kShortKey), entry.binary.arch,
               fmt::format("{}", entry.file_bytes), entry.binary.compiler, entry.binary.library,
               detail_of(entry)});
  return table;
}

std::string summary_of(const std::filesystem::path& pack, const std::vector<CacheEntry>& entries) {
  return fmt::format("{}: {} kernels, {}", pack.string(), entries.size(), bytes_text(bytes_of(entries)));
}

std::vector<KindStatistics> statistics_of(const std::vector<CacheEntry>& entries) {
  std::map<std::pair<std::string, std::string>, KindStatistics> by_kind;
  for (const CacheEntry& entry : entries) {
    const KernelBinary& binary = entry.binary;
    const std::string kind = entry.damage.empty() ? kind_of(binary.spec) : "damaged";
    KindStatistics& sum = by_kind[{binary.arch, kind}];
    sum.arch = binary.arch;
    sum.kind = kind;
    ++sum.kernels;
    sum.stored_bytes += entry.file_bytes;
    sum.code_bytes += binary.code.size();
    sum.most_registers = std::max(sum.most_registers, binary.resources.registers);
    sum.spilling += binary.resources.spill_store_bytes + binary.resources.spill_load_bytes > 0;
    sum.refused += !binary.refused.empty();
  }
  std::vector<KindStatistics> kinds;
  for (auto& [key, sum] : by_kind) kinds.push_back(std::move(sum));
  return kinds;
}

Table statistics_table(const std::vector<KindStatistics>& kinds) {
  Table table({{"arch"},
               {"kind"},
               number("kernels"),
               number("stored"),
               number("code"),
               number("registers"),
               number("spill"),
               number("refused")});
  for (const KindStatistics& kind : kinds)
    table.add({kind.arch, kind.kind, fmt::format("{}", kind.kernels), bytes_text(kind.stored_bytes),
               bytes_text(kind.code_bytes), fmt::format("{}", kind.most_registers),
               fmt::format("{}", kind.spilling), fmt::format("{}", kind.refused)});
  return table;
}

Json document_of(const std::vector<KindStatistics>& kinds) {
  Json json = Json::array();
  for (const KindStatistics& kind : kinds)
    json.push_back({{"arch", kind.arch},
                    {"kind", kind.kind},
                    {"kernels", kind.kernels},
                    {"stored_bytes", kind.stored_bytes},
                    {"code_bytes", kind.code_bytes},
                    {"most_registers", kind.most_registers},
                    {"spilling", kind.spilling},
                    {"refused", kind.refused}});
  return {{"kinds", std::move(json)}};
}

std::vector<Difference> differences_of(const Pack& first, const Pack& second) {
  std::vector<Difference> differences;
  auto a = first.rows().begin(), b = second.rows().begin();
  while (a != first.rows().end() || b != second.rows().end()) {
    if (b == second.rows().end() || (a != first.rows().end() && a->name < b->name)) {
      differences.push_back({(a++)->name, "only in the first"});
    } else if (a == first.rows().end() || b->name < a->name) {
      differences.push_back({(b++)->name, "only in the second"});
    } else {
      if (first.contents(*a) != second.contents(*b)) differences.push_back({a->name, "contents differ"});
      ++a, ++b;
    }
  }
  return differences;
}

Table difference_table(const std::vector<Difference>& differences) {
  Table table({{"name"}, {"difference"}});
  for (const auto& [name, where] : differences) table.add({name, where});
  return table;
}

Json document_of(const std::vector<Difference>& differences) {
  Json json = Json::array();
  for (const auto& [name, where] : differences) json.push_back({{"name", name}, {"difference", where}});
  return {{"differences", std::move(json)}};
}

Table missing_table(const std::vector<MissingKernel>& missing) {
  Table table({{"missing"}, {"arch"}, number("requests"), detail("spec"), detail("made by")});
  for (const MissingKernel& kernel : missing)
    table.add({kernel.key.substr(0, kShortKey), kernel.arch, fmt::format("{}", kernel.requests), kernel.spec,
               kernel.command});
  return table;
}

Json document_of(const Coverage& coverage) {
  Json missing = Json::array();
  for (const MissingKernel& kernel : coverage.missing)
    missing.push_back({{"key", kernel.key},
                       {"arch", kernel.arch},
                       {"spec", kernel.spec},
                       {"requests", kernel.requests},
                       {"command", kernel.command}});
  return {{"requests", coverage.requests},
          {"kernels", coverage.kernels},
          {"missing", std::move(missing)},
          {"impossible", coverage.impossible}};
}

}  // namespace fa2::tools
