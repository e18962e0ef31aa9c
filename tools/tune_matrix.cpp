// Tuning of many problems, one after the other.
#include <api/explanation.h>
#include <fmt/format.h>
#include <generator/kernel_source.h>
#include <tools/table.h>
#include <tools/tune_matrix.h>

#include <algorithm>
#include <map>

namespace fa2::tools {
namespace {

std::optional<TuningRecord> current_record(const PlannedProblem& problem, KernelPass pass,
                                           const TuningStore& known, const Target& target) {
  const Lookup found = find_record(known, problem, target, bucket_of(problem, pass));
  if (found.match != Match::exact) return std::nullopt;
  if (found.record.templates != template_digest(found.record.config, target.arch)) return std::nullopt;
  return found.record;
}

/// Returns the current records; none unless every pass has one.
std::vector<TuningRecord> current_records(const PlannedProblem& problem,
                                          const std::vector<KernelPass>& passes, const TuningStore& known,
                                          const Target& target) {
  std::vector<TuningRecord> records;
  for (const KernelPass pass : passes) {
    auto record = current_record(problem, pass, known, target);
    if (!record) return {};
    records.push_back(*std::move(record));
  }
  return records;
}

bool is_wanted(const MatrixPoint& point) {
  return point.skipped.empty();
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// Returns "[12/108] f16 d128 none batch 1 heads 16/16 seqlen 4096x4096".
std::string label_of(const std::vector<MatrixPoint>& points, std::size_t i) {
  return fmt::format("[{}/{}] {}", i + 1, points.size(), to_string(points[i].problem));
}

/// Returns "1.04x".
std::string gain_text(const TuningRecord& record) {
  if (!(record.us > 0 && record.heuristic_us > 0)) return "-";
  return fmt::format("{:.2f}x", record.heuristic_us / record.us);
}

std::string outcome_of(const MatrixPoint& point) {
  if (point.records.empty()) return "failed: " + first_line(point.error);
  double us = 0, heuristic_us = 0;
  for (const TuningRecord& record : point.records) {
    us += record.us;
    heuristic_us += record.heuristic_us;
  }
  return fmt::format("{} us, the heuristic's {} us", us_text(us), us_text(heuristic_us));
}

void add_rows(const MatrixPoint& point, Table& table) {
  const std::string note = point.error.empty() ? point.skipped : "failed: " + first_line(point.error);
  const std::string problem = to_string(point.problem);
  if (point.records.empty()) table.add({problem, "-", "-", "-", "-", note});
  for (const TuningRecord& r : point.records)
    table.add({problem, us_text(r.heuristic_us), us_text(r.us), gain_text(r), to_string(r.config), note});
}

Json json_of(const MatrixPoint& point) {
  Json records = Json::array();
  for (const TuningRecord& record : point.records) records.push_back(Json::parse(to_json_line(record)));
  return {{"problem", Json::parse(to_json(point.problem))},
          {"bucket", to_string(bucket_of(point.problem))},
          {"skipped", point.skipped},
          {"records", std::move(records)},
          {"error", point.error}};
}

}  // namespace

std::vector<KernelPass> forward_alone(const PlannedProblem&) {
  return {KernelPass::forward};
}

std::vector<MatrixPoint> points_of(const std::vector<PlannedProblem>& problems,
                                   const std::vector<TuningRecord>& known,
                                   const std::optional<Target>& target, const PassesOf& passes_of) {
  const TuningStore store("", {}, known);
  std::map<std::string, std::size_t> first_of;  // bucket -> number of its first problem
  std::vector<MatrixPoint> points;
  for (const PlannedProblem& problem : problems) {
    MatrixPoint point{problem, {}, {}, {}};
    const auto [first, is_new] = first_of.try_emplace(to_string(bucket_of(problem)), points.size() + 1);
    if (target) point.records = current_records(problem, passes_of(problem), store, *target);
    if (!point.records.empty()) point.skipped = point.records.size() > 1 ? "has records" : "has a record";
    if (!is_new) point.skipped = fmt::format("shares the bucket of problem {}", first->second);
    points.push_back(std::move(point));
  }
  return points;
}

void search(std::vector<MatrixPoint>& points, const MatrixSearch& matrix) {
  const double start = matrix.now_seconds();
  auto left = std::ranges::count_if(points, is_wanted);
  int done = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    MatrixPoint& point = points[i];
    if (!is_wanted(point)) continue;
    try {
      point.records = matrix.tune(point.problem);
    } catch (const Error& error) {
      point.error = error.what();
    }
    for (const TuningRecord& record : point.records) matrix.keep(record);
    const double each = (matrix.now_seconds() - start) / ++done;
    --left;
    matrix.say(fmt::format("{}: {}, {} left", label_of(points, i), outcome_of(point),
                           duration_text(each * static_cast<double>(left))));
  }
}

std::string list_of(const std::vector<MatrixPoint>& points) {
  std::string list;
  for (std::size_t i = 0; i < points.size(); ++i)
    list += label_of(points, i) + (is_wanted(points[i]) ? "" : ": " + points[i].skipped) + "\n";
  return list;
}

std::string text_of(const std::vector<MatrixPoint>& points, std::size_t width) {
  Table table({{"problem"},
               number("heuristic us"),
               number("best us"),
               number("gain"),
               detail("config"),
               detail("note")});
  for (const MatrixPoint& point : points) add_rows(point, table);
  const auto failed = std::ranges::count_if(points, [](const MatrixPoint& p) { return !p.error.empty(); });
  const auto skipped = std::ranges::count_if(points, [](const MatrixPoint& p) { return !is_wanted(p); });
  const auto total = static_cast<std::ptrdiff_t>(points.size());
  return table.text(false, width) + fmt::format("{} problems: {} searched, {} skipped, {} failed\n", total,
                                                total - skipped - failed, skipped, failed);
}

Json json_of(const std::vector<MatrixPoint>& points) {
  Json all = Json::array();
  for (const MatrixPoint& point : points) all.push_back(json_of(point));
  return all;
}

}  // namespace fa2::tools
