// The tuning records that ship with the library.
#include <autotune/tuning_store.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/embedded.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>
#include <tests/support/tuning_record.h>
#include <tools/record_file.h>
#include <tools/tuning_matrix.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the traits without a variant, by name.
const std::map<std::string, AttentionTraits>& plain_traits() {
  static const auto all = [] {
    std::map<std::string, AttentionTraits> by_name;
    for (const DType dtype : {DType::f16, DType::bf16})
      for (const MaskKind mask : {MaskKind::none, MaskKind::causal_top_left, MaskKind::causal_bottom_right})
        for (const RowAlignment rows :
             {RowAlignment::bytes16, RowAlignment::element, RowAlignment::bytes16_any_order}) {
          const auto add = [&](int dim, int dim_v) {
            const AttentionTraits traits =
                traits_of({{.dtype = dtype, .head_dim = dim, .head_dim_v = dim_v, .mask = mask}, {rows}});
            by_name.emplace(to_string(traits), traits);
          };
          for (int dim = 8; dim <= 256; dim += 8)
            for (int dim_v = 8; dim_v <= 256; dim_v += 8) add(dim, dim_v);
          for (const int dim : {320, 512}) add(dim, dim);
          add(576, 512);  // latents
        }
    return by_name;
  }();
  return all;
}

/// Inverse of to_string(AttentionTraits).
std::optional<AttentionTraits> traits_named(const std::string& name) {
  std::string plain = name;
  const auto take = [&](const std::string& word) {
    const std::size_t at = plain.find("_" + word);
    if (at == plain.npos) return false;
    plain.erase(at, word.size() + 1);
    return true;
  };
  KvType kv_type = KvType::same;
  for (const KvType type : {KvType::e4m3, KvType::scaled, KvType::ds_mla})
    if (take(fmt::format("kv_type_{}", to_string(type)))) kv_type = type;
  int page_size = 0;
  for (int size = 256; size > 0 && page_size == 0; --size)
    if (take(fmt::format("page_size_{}", size))) page_size = size;
  PlannedProblem variants;
  const auto visit_variants = [](const auto& variant, auto&... problems) {
    PlannedProblem::visit(
        [&](const char* field, FieldRole, auto&... values) {
          if constexpr ((kIsVariant<std::remove_cvref_t<decltype(values)>> && ...)) variant(field, values...);
        },
        problems...);
  };
  visit_variants(
      [&](const char* field, auto& value) {
        if (take(field)) value = 1;
      },
      variants);
  const auto found = plain_traits().find(plain);
  if (found == plain_traits().end()) return std::nullopt;
  PlannedProblem problem = found->second;
  visit_variants([](const char*, auto& value, const auto& wanted) { value = wanted; }, problem, variants);
  problem.kv_type = kv_type;
  problem.page_size = page_size;
  const AttentionTraits traits = traits_of(problem);
  return to_string(traits) == name ? std::optional(traits) : std::nullopt;
}

/// Returns why a record cannot be used; empty if it can.
std::string fault_of(const TuningRecord& record) {
  const auto traits = traits_named(record.bucket.traits);
  if (!traits) return "no traits are named " + record.bucket.traits;
  const Arch* arch = find_arch(record.arch);
  if (arch == nullptr || record.arch != arch->name) return "no arch is named " + record.arch;
  if (record.device.empty() || record.sm_count <= 0 || !(record.us > 0)) return "incomplete";
  return why_rejected({*traits, record.config, *arch}).value_or("");
}

/// Returns "file:line: what is wrong" for every fault.
std::vector<std::string> faults_of(std::span<const EmbeddedFile> files) {
  std::vector<std::string> faults;
  std::set<std::string> known;
  for (const EmbeddedFile& file : files) {
    std::istringstream lines{std::string(file.text)};
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const auto add = [&](const std::string& what) {
        faults.push_back(fmt::format("{}:{}: {}", file.name, number, what));
      };
      const auto record = parse_json_line(line);
      if (!record) {
        add("no record");
        continue;
      }
      if (const std::string fault = fault_of(*record); !fault.empty()) add(fault);
      const auto place = fmt::format("{} {} {} {}", record->device, record->arch, record->sm_count,
                                     to_string(record->bucket));
      if (!known.insert(place).second) add("a second record of its bucket");
    }
  }
  return faults;
}

}  // namespace

TEST_CASE("every shipped record parses, names a valid config and is the only one of its bucket") {
  for (const std::string& fault : faults_of(embedded_records())) FAIL_CHECK(fault);
  std::size_t lines = 0;
  for (const EmbeddedFile& file : embedded_records())
    lines += static_cast<std::size_t>(std::ranges::count(file.text, '\n'));
  CHECK(shipped_records().size() == lines);
}

TEST_CASE("every problem that the standard matrix records may ship") {
  for (const PlannedProblem& problem : tools::standard_matrix()) {
    const AttentionTraits traits = traits_of(problem);
    CAPTURE(to_string(traits));
    CHECK(traits_named(to_string(traits)) == traits);
  }
}

TEST_CASE("records that must not ship are found, with file and line") {
  TuningRecord invalid = record("bf16_d128_v64_causal_bottom_right_element"), unknown = record("f16_d7_none"),
               no_arch = record("f16_d96_none");
  invalid.config.tile_m = 40;
  no_arch.arch = "sm_35";
  const std::string good = to_json_line(record()) + "\n";
  const std::string first = good + to_json_line(record("f16_d64_none", 11)) + "\n\n";
  const std::string second = to_json_line(invalid) + "\n" + to_json_line(unknown) + "\n" +
                             to_json_line(no_arch) + "\n" + good + "{\"format\":2}\n";
  const EmbeddedFile files[] = {{"a.jsonl", first}, {"b.jsonl", second}};
  const auto faults = faults_of(files);
  REQUIRE(faults.size() == 6);
  CHECK(faults[0] == "a.jsonl:3: no record");
  CHECK(faults[1].find("b.jsonl:1: tile_m = 40") == 0);
  CHECK(faults[2] == "b.jsonl:2: no traits are named f16_d7_none");
  CHECK(faults[3] == "b.jsonl:3: no arch is named sm_35");
  CHECK(faults[4] == "b.jsonl:4: a second record of its bucket");
  CHECK(faults[5] == "b.jsonl:5: no record");
}

TEST_CASE("shipped records are in the order that fa2 tune --records writes") {
  const TemporaryDirectory dir;
  const auto lines = [](const std::vector<TuningRecord>& records) {
    std::string text;
    for (const TuningRecord& each : records) text += to_json_line(each) + "\n";
    return text;
  };
  for (const EmbeddedFile& file : embedded_records()) {
    CAPTURE(file.name);
    write_text(dir / "records", std::string(file.text));
    CHECK(lines(tools::read_records(dir / "records")) == lines(parse_json_lines(file.text, "").records));
  }
}
