// A sorted file of tuning records, rewritten for each new one.
#include <core/text.h>
#include <fmt/format.h>
#include <runtime/file.h>
#include <tools/output_file.h>
#include <tools/record_file.h>

#include <cctype>
#include <map>
#include <sstream>
#include <string>
#include <tuple>

namespace fa2::tools {
namespace {

namespace fs = std::filesystem;

/// Sort key of a record: device, arch, SMs, pass, traits, group, sizes, heads, tiles.
using Place =
    std::tuple<std::string, std::string, int, KernelPass, std::string, int, std::vector<int>, int, int>;

struct Line {
  std::string text;
  TuningRecord record;
};
using Lines = std::map<Place, Line>;

/// Pads numbers with zeros, so that d64 precedes d128.
std::string with_wide_numbers(const std::string& text) {
  constexpr std::size_t kWidth = 10;
  std::string wide;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end > begin) wide += fmt::format("{:0>{}}", text.substr(begin, end - begin), kWidth);
    if (end < text.size()) wide += text[end++];
    begin = end;
  }
  return wide;
}

Place place_of(const TuningRecord& record) {
  const Bucket& bucket = record.bucket;
  std::vector<int> sizes;
  for (const SizeLog2& size : bucket.sizes) sizes.push_back(size.log2);
  return {record.device,
          record.arch,
          record.sm_count,
          bucket.pass,
          with_wide_numbers(bucket.traits),
          bucket.group_log2,
          sizes,
          bucket.heads_log2,
          bucket.tiles_half_octaves};
}

/// Reads the lines. The last line of a bucket wins, as in a tuning store.
Lines read_lines(const fs::path& file) {
  Lines lines;
  const auto bytes = read_file(file);
  if (!bytes) return lines;
  std::istringstream text{std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size())};
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    if (line.empty()) continue;
    const auto record = parse_json_line(line);
    if (!record) {
      throw InvalidRequest({{fmt::format("{}:{}", file.native(), number), in_quotes(line),
                             "must be a tuning record of this version; remove the line"}});
    }
    lines.insert_or_assign(place_of(*record), Line{line, *record});
  }
  return lines;
}

}  // namespace

std::vector<TuningRecord> read_records(const fs::path& file) {
  std::vector<TuningRecord> records;
  for (const auto& [place, line] : read_lines(file)) records.push_back(line.record);
  return records;
}

void add_record(const fs::path& file, const TuningRecord& record) {
  Lines lines = read_lines(file);
  lines.insert_or_assign(place_of(record), Line{to_json_line(record), record});
  OutputFile output(file);
  for (const auto& [place, line] : lines) {
    output.write(line.text.data(), line.text.size());
    output.write("\n", 1);
  }
  output.commit();
}

}  // namespace fa2::tools
