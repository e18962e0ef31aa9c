// The file of tuning records as a subject.
#include <autotune/config_choice.h>
#include <autotune/tuning_store.h>
#include <generator/config_space.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/tuning_record.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "hostile_json.h"
#include "subject.h"

namespace fa2::test {
namespace {

namespace fs = std::filesystem;

constexpr int kKept = 4;  ///< records that make() writes
constexpr int kAdded = 10, kAddedByJudge = 11;

fs::path file_in(const fs::path& root) {
  return root / "tuning" / "records.jsonl";
}

TuningRecord numbered(int number) {
  return record("f16_d64_none", number, 90 + number);
}

bool holds(const std::vector<TuningRecord>& records, int number) {
  return std::ranges::any_of(records, [line = to_json_line(numbered(number))](const TuningRecord& record) {
    return to_json_line(record) == line;
  });
}

/// Looks up a problem as a plan does. Returns `wrong` if a config is used that cannot compute the problem.
Verdict look_up(const TuningStore& store) {
  const PlannedProblem problem = some_problem();
  const Arch arch = *find_arch("sm_80");
  const auto is_valid = [&](const KernelConfig& config) { return !why_rejected(problem, config, arch); };
  const Lookup found = store.find("GPU A", "sm_80", 108, bucket_of(problem), is_valid);
  return found.match == Match::none || is_valid(found.record.config) ? Verdict{}
                                                                     : wrong("an invalid config is used");
}

Verdict read(const fs::path& root) {
  forget_warnings();
  const TuningStore store(file_in(root));
  for (const TuningRecord& record : store.records()) {
    const auto again = parse_json_line(to_json_line(record));
    if (!again || to_json_line(*again) != to_json_line(record))
      return wrong("a record changes when it is written again");
  }
  const Verdict verdict = look_up(store);
  if (store.records().empty() && !has_warned() && bytes_in(file_in(root)) > 0)
    return wrong("no records, and no warning");
  return worse(verdict, store.records().empty() ? Verdict{Outcome::refused, ""} : Verdict{});
}

Verdict append(const fs::path& root, int number) {
  forget_warnings();
  TuningStore store(file_in(root));
  store.add(numbered(number));
  const bool has_failed = has_warned("not kept on disk");
  if (!holds(store.records(), number)) return wrong("the record is not in memory");
  return has_failed ? Verdict{Outcome::refused, ""} : look_up(store);
}

bool is_added(const fs::path& root) {
  return holds(TuningStore(file_in(root)).records(), kAdded);
}

void make(const fs::path& root) {
  for (int number = 0; number < kKept; ++number) append(root, number);
}

Verdict judge(const fs::path& root, bool complete) {
  Verdict verdict = append(root, kAddedByJudge);
  forget_warnings();
  const std::vector<TuningRecord> records = TuningStore(file_in(root)).records();
  if (!holds(records, kAddedByJudge) && verdict.outcome == Outcome::healed && !has_warned())
    return wrong("an appended record is lost, and no warning says so");
  for (int number = 0; complete && number < kKept; ++number) {
    if (!holds(records, number)) return wrong("lost record " + std::to_string(number));
  }
  if (!holds(records, kAddedByJudge)) verdict = worse(verdict, {Outcome::refused, ""});
  return verdict;
}

std::string forge(Random& random) {
  std::string text;
  for (std::size_t lines = 1 + below(random, 3); lines > 0; --lines)
    text += hostile_json(nlohmann::json::parse(to_json_line(numbered(0))), random) + "\n";
  return text;
}

}  // namespace

Subject record_subject() {
  return {.name = "records",
          .make = make,
          .operations = {{"read", read},
                         {"append", [](const fs::path& root) { return append(root, kAdded); }, is_added}},
          .files = [](const fs::path& root) { return std::vector<fs::path>{file_in(root)}; },
          .forge = forge,
          .judge = judge,
          .lock = file_in};
}

Subject torn_record_subject() {
  Subject subject = record_subject();
  subject.name = "torn records";
  subject.make = [](const fs::path& root) {
    make(root);
    write_text(file_in(root), read_text(file_in(root)) + to_json_line(numbered(20)).substr(0, 100));
  };
  return subject;
}

}  // namespace fa2::test
