// Files of tuning records, and the look-ups of what they hold.
#include <autotune/tuning_store.h>
#include <generator/config_space.h>

#include <utility>

#include "fuzz.h"

namespace fa2::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  std::string few;
  for (const TuningRecord& record : shipped_records()) {
    few += to_json_line(record) + "\n";
    if (few.size() < 2000) continue;
    all.push_back(std::exchange(few, ""));
    if (all.size() == 20) break;
  }
  return all;
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  const std::vector<TuningRecord> records = parse_json_lines(fuzz::text_of(data, size), "fuzz").records;
  for (const TuningRecord& record : records) {
    const std::string line = to_json_line(record);
    const auto again = parse_json_line(line);
    fuzz::require(again && to_json_line(*again) == line, "a printed record is parsed to the same");
    fuzz::require(line.find('\n') == std::string::npos, "a record is one line");
    fuzz::require(!to_string(record.bucket).empty(), "a bucket has a text");
  }
  const PlannedProblem problem =
      PlannedProblem({.head_dim = 128, .batch = 4, .heads_q = 16, .seqlen_q = 1024, .seqlen_k = 1024}, {})
          .normalized();
  const Arch arch = *find_arch("sm_90a");
  const auto is_valid = [&](const KernelConfig& config) { return !why_rejected(problem, config, arch); };
  const TuningStore store({}, {}, records);
  for (const TuningRecord& record : records) {
    const Lookup found = store.find(record.device, record.arch, record.sm_count, record.bucket, is_valid);
    fuzz::require(found.match == Match::none || is_valid(found.record.config),
                  "a config that is used is valid");
    static_cast<void>(store.of_traits(record.bucket.traits, record.bucket.pass, record.arch));
  }
  return 0;
}
