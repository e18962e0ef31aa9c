// Tuning records as JSON lines, and the lookup of the best match.
#include <autotune/tuning_store.h>
#include <core/enum_words.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <generator/embedded.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <runtime/disk_cache.h>
#include <runtime/file.h>
#include <runtime/json_field.h>
#include <runtime/log.h>
#include <runtime/trust.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <type_traits>
#include <utility>

namespace fa2 {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;

constexpr int kFormat = 2;
constexpr int kMaxDistance = 3;
constexpr auto kLockPatience = 2s;

int exponent_field(const json& object, const std::string& name) {
  return static_cast<int>(integer_field(object, name.c_str(), 0, 63));
}

std::string field_of(const SizeLog2& size) {
  return fmt::format("{}_log2", size.name);
}

PlannedProblem with_every_size() {
  PlannedProblem problem;
  PlannedProblem::visit(
      [](const char*, FieldRole, auto& value) {
        if constexpr (kIsOptional<std::decay_t<decltype(value)>>) value.emplace();
      },
      problem);
  problem.varlen = true;
  return problem;
}

/// A size that the record lacks is an optional size that its problems lack too, or has its default, because the field was added
/// after the record.
Bucket parse_bucket(const json& object) {
  static const auto &of_all = *new std::vector(bucket_of({}).sizes),
                    &every = *new std::vector(bucket_of(with_every_size()).sizes);
  Bucket bucket;
  object.at("traits").get_to(bucket.traits);
  bucket.group_log2 = exponent_field(object, "group_log2");
  bucket.heads_log2 = exponent_field(object, "heads_log2");
  for (SizeLog2 size : every) {
    const bool listed = object.contains(field_of(size));
    if (listed) size.log2 = exponent_field(object, field_of(size));
    if (listed || std::ranges::find(of_all, size) != of_all.end()) bucket.sizes.push_back(size);
  }
  return bucket;
}

TuningRecord parse_record(const json& object) {
  integer_field(object, "format", kFormat, kFormat);
  TuningRecord record;
  object.at("device").get_to(record.device);
  object.at("arch").get_to(record.arch);
  record.sm_count = int32_field(object, "sm_count");
  record.bucket = parse_bucket(object.at("bucket"));
  const json& config = object.at("config");
  const auto kernel = enumerator_of<KernelId>(config.at("kernel").get_ref<const std::string&>());
  if (!kernel) throw CacheError("field \"kernel\" names no kernel");
  record.config.kernel = *kernel;
  KernelConfig::visit(record.config, [&](const char* name, std::int32_t& value) {
    if (config.contains(name)) value = int32_field(config, name);
  });
  record.bucket.pass = pass_of(record.config);
  const json& bucket = object.at("bucket");
  record.bucket.tiles_half_octaves = int32_field(bucket, "tiles_half_octaves");
  record.us = object.value("us", 0.0);
  record.heuristic_us = object.value("heuristic_us", 0.0);
  record.templates = object.value("templates", "");
  record.date = object.value("date", "");
  return record;
}

bool is_outdated(const std::string& line) {
  const json object = parse_json(line);
  return object.is_object() && object.contains("format") && object["format"].is_number_integer() &&
         object["format"] >= 1 && object["format"] < kFormat;
}

void warn_damaged(const std::string& origin, const std::vector<std::size_t>& lines) {
  if (lines.empty()) return;
  warn_once("tuning damage " + origin,
            fmt::format("{}:{}: not a tuning record of format {}{}; skipped", origin, lines.front(), kFormat,
                        lines.size() == 1 ? "" : fmt::format(" ({} such lines)", lines.size())));
}

/// Returns whether the file ends in the middle of a line, as a killed writer leaves it, or cannot be read.
/// @throws FileError if it has no end, as a pipe.
bool ends_torn(int fd, const fs::path& path) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0) throw_file_error("cannot append to", path, errno);
  char last = '\0';
  return size > 0 && (::pread(fd, &last, 1, size - 1) != 1 || last != '\n');
}

/// @throws CacheError.
void append_line(const fs::path& path, const std::string& line) {
  open_trusted_folder(folder_of(path), "", true);
  const FileDescriptor file =
      open_trusted_file(folder_of(path), path.filename(), O_RDWR | O_CREAT | O_APPEND);
  if (!file) throw_file_error("cannot open", path, ENOENT);
  const bool locked = lock_file(file.get(), kLockPatience);  // without it O_APPEND still keeps lines whole
  const std::string text = (ends_torn(file.get(), path) ? "\n" : "") + line + "\n";
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  const int error = written < 0 ? errno : ENOSPC;
  if (locked) unlock_file(file.get());
  if (written != static_cast<ssize_t>(text.size())) throw_file_error("cannot append to", path, error);
}

}  // namespace

std::string to_json_line(const TuningRecord& record) {
  json config = {{"kernel", to_string(record.config.kernel)}};
  visit_own(record.config, [&](std::string_view name, std::int32_t value) { config[name] = value; });
  json bucket = {{"traits", record.bucket.traits},
                 {"group_log2", record.bucket.group_log2},
                 {"heads_log2", record.bucket.heads_log2},
                 {"tiles_half_octaves", record.bucket.tiles_half_octaves}};
  for (const SizeLog2& size : record.bucket.sizes) bucket[field_of(size)] = size.log2;
  const json object = {{"format", kFormat},
                       {"device", record.device},
                       {"arch", record.arch},
                       {"sm_count", record.sm_count},
                       {"bucket", bucket},
                       {"config", config},
                       {"us", record.us},
                       {"heuristic_us", record.heuristic_us},
                       {"templates", record.templates},
                       {"date", record.date}};
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string canonical_lines(const std::vector<TuningRecord>& records) {
  std::map<std::string, std::pair<std::string, std::string>> latest;  // date and line by GPU and bucket
  for (const TuningRecord& record : records) {
    const std::string place =
        fmt::format("{} {} {} {}", record.arch, record.device, record.sm_count, to_string(record.bucket));
    std::pair<std::string, std::string> line{record.date, to_json_line(record)};
    auto& kept = latest[place];
    if (kept < line) kept = std::move(line);
  }
  std::string text;
  for (const auto& [place, line] : latest) text += line.second + "\n";
  return text;
}

std::optional<TuningRecord> parse_json_line(const std::string& line) {
  try {
    return parse_record(parse_json(line));
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const CacheError&) {
    return std::nullopt;
  }
}

ParsedRecords parse_json_lines(std::string_view text, const std::string& origin) {
  ParsedRecords parsed;
  std::vector<std::size_t> damaged;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line(text.substr(begin, end - begin));
    ++number;
    begin = end + 1;
    if (line.empty()) continue;
    if (auto record = parse_json_line(line)) {
      parsed.records.push_back(std::move(*record));
    } else if (is_outdated(line)) {
      ++parsed.outdated;
    } else {
      damaged.push_back(number);
    }
  }
  warn_damaged(origin, damaged);
  if (parsed.outdated > 0)
    info_once("tuning format " + origin,
              fmt::format("{}: {} tuning records of an older format are not used", origin, parsed.outdated));
  return parsed;
}

const std::vector<TuningRecord>& shipped_records() {
  static const auto& all = *new auto([] {
    std::vector<TuningRecord> records;
    for (const EmbeddedFile& file : embedded_records()) {
      auto more = parse_json_lines(file.text, std::string(file.name)).records;
      std::move(more.begin(), more.end(), std::back_inserter(records));
    }
    return records;
  }());
  return all;
}

RecordText::RecordText(const fs::path& file) : origin(file.native()) {
  if (!file.empty())
    text = DiskCache(folder_of(file), DiskCache::Access::read_only).text(file.filename().native());
}

std::vector<RecordText> texts_of(const Stores& stores) {
  std::vector<RecordText> texts;
  for (const auto& store : stores) texts.emplace_back(*store);
  return texts;
}

TuningStore::TuningStore(fs::path file, std::vector<RecordText> read_only, std::vector<TuningRecord> shipped,
                         const std::string& as_of)
    : file_(std::move(file)), shipped_(std::move(shipped)) {
  std::reverse(read_only.begin(), read_only.end());
  read_only.emplace_back(file_);
  for (const RecordText& records : read_only) {
    ParsedRecords parsed = parse_json_lines(records.text, records.origin);
    // ISO 8601 sorts by time.
    if (&records == &read_only.back() && !as_of.empty())
      std::erase_if(parsed.records, [&](const TuningRecord& record) { return record.date > as_of; });
    std::move(parsed.records.begin(), parsed.records.end(), std::back_inserter(records_));
    outdated_ += parsed.outdated;
  }
}

Lookup TuningStore::find(const std::string& device, const std::string& arch, int sm_count,
                         const Bucket& bucket,
                         const std::function<bool(const KernelConfig&)>& is_valid) const {
  const auto best_of = [&](const std::vector<TuningRecord>& all) {
    Lookup best;
    int best_distance = kMaxDistance + 1;
    for (auto record = all.rbegin(); record != all.rend(); ++record) {
      const std::optional<int> gap = distance(record->bucket, bucket);
      if (record->arch != arch || !gap) continue;
      const bool here = record->device == device && record->sm_count == sm_count;
      const bool better = here ? *gap < best_distance : *gap == 0 && best.match == Match::none;
      if (!better || !is_valid(record->config)) continue;
      if (here) best_distance = *gap;
      best = {!here ? Match::other_device : *gap == 0 ? Match::exact : Match::nearest, *record};
      if (best.match == Match::exact) break;
    }
    return best;
  };
  const Lookup own = [&] {
    const std::lock_guard lock(mutex_);
    return best_of(records_);
  }();
  Lookup shipped = best_of(shipped_);
  shipped.shipped = true;
  return own.match <= shipped.match ? own : shipped;
}

std::vector<Lookup> TuningStore::of_traits(const std::string& traits, KernelPass pass,
                                           const std::string& arch) const {
  std::vector<Lookup> found;
  const auto add = [&](const std::vector<TuningRecord>& all, bool shipped) {
    for (const TuningRecord& record : all) {
      const Bucket& bucket = record.bucket;
      if (record.arch != arch || bucket.pass != pass || bucket.traits != traits) continue;
      found.push_back({Match::other_device, record, shipped});
    }
  };
  add(records(), false);
  add(shipped_, true);
  return found;
}

void TuningStore::add(const TuningRecord& record) {
  {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  publish(record);
}

void TuningStore::publish(const TuningRecord& record) const {
  if (file_.empty()) return;
  try {
    append_line(file_, to_json_line(record));
  } catch (const CacheError& error) {
    warn_once("tuning write " + file_.native(),
              fmt::format("tuning records are not kept on disk: {}", error.what()));
  }
}

std::vector<TuningRecord> TuningStore::records() const {
  const std::lock_guard lock(mutex_);
  return records_;
}

}  // namespace fa2
