// Tuning records on disk: JSON lines, appended, one record per (GPU, bucket); the last one wins.
#pragma once

#include <autotune/bucket.h>
#include <fa2/attention.h>
#include <runtime/kernel_store.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fa2 {

struct TuningRecord {
  std::string device;  ///< device name
  std::string arch;    ///< "sm_90a"
  int sm_count = 0;
  Bucket bucket;  ///< bucket.pass is the pass of `config`, and only `config` is written
  KernelConfig config;
  double us = 0;  ///< median of the winner
  double heuristic_us = 0;
  std::string templates;  ///< template_digest() of what it was measured with
  std::string date;       ///< ISO 8601, UTC
};

/// How well a record matched, best first.
enum class Match : std::uint8_t { exact, nearest, other_device, none };

struct Lookup {
  Match match = Match::none;
  TuningRecord record;  ///< meaningful unless none
  bool shipped = false;
};

/// Converts a record to one line of JSON, and back. Returns nullopt for a line that is damaged or has another format.
std::string to_json_line(const TuningRecord& record);
std::optional<TuningRecord> parse_json_line(const std::string& line);

/// Returns the records as lines, for each GPU and bucket the latest one: the same text in whatever order they come.
std::string canonical_lines(const std::vector<TuningRecord>& records);

struct ParsedRecords {
  std::vector<TuningRecord> records;  ///< in the text's order
  std::size_t outdated = 0;           ///< lines of an older format, which are not used
};

/// Skips damaged lines with one warning that names `origin`, and lines of an older format with one message at info.
ParsedRecords parse_json_lines(std::string_view text, const std::string& origin);

/// The name of the tuning records in a cache directory or pack.
inline constexpr const char* kTuningFile = "tuning.jsonl";

/// JSON lines from a read-only place.
struct RecordText {
  /// Reads a file like KernelStore::text().
  RecordText(const std::filesystem::path& file);
  explicit RecordText(const KernelStore& store)
      : RecordText((store.path() / kTuningFile).native(), store.text(kTuningFile)) {}
  RecordText(std::string from, std::string lines) : origin(std::move(from)), text(std::move(lines)) {}

  std::string origin;  ///< for messages
  std::string text;
};

/// Returns the stores' records, in their order.
std::vector<RecordText> texts_of(const Stores& stores);

/// Returns the records that ship with the library, parsed once. They were measured on other machines; GPU names identify them.
const std::vector<TuningRecord>& shipped_records();

/// Thread-safe; processes append with O_APPEND under an advisory lock.
class TuningStore {
 public:
  /// `file` may not exist yet. Empty: in memory only. `read_only`: consulted after `file`. `shipped`: consulted last. `as_of`: records of `file` with a later date are left out; empty: none.
  explicit TuningStore(std::filesystem::path file, std::vector<RecordText> read_only = {},
                       std::vector<TuningRecord> shipped = {}, const std::string& as_of = {});

  /// Looks a record up. exact: same device, same bucket. nearest: same device, distance <= 3. other_device:
  /// same arch, same bucket. A shipped record is used if it matches better than all others. Records whose
  /// config `is_valid` rejects are skipped.
  Lookup find(const std::string& device, const std::string& arch, int sm_count, const Bucket& bucket,
              const std::function<bool(const KernelConfig&)>& is_valid) const;

  /// Returns every record of these traits, this pass and this arch, for any GPU, as Match::other_device: the user's, then the
  /// shipped ones.
  std::vector<Lookup> of_traits(const std::string& traits, KernelPass pass, const std::string& arch) const;

  /// Adds the record and publishes it. If the file cannot be written, the record stays in memory.
  void add(const TuningRecord& record);
  /// Appends the record to the file, for other processes; find() does not see it. Warns once if the file cannot be written.
  void publish(const TuningRecord& record) const;

  /// Returns all records but the shipped ones.
  std::vector<TuningRecord> records() const;
  const std::filesystem::path& file() const { return file_; }
  /// Returns how many lines of the files have an older format.
  std::size_t outdated() const { return outdated_; }

 private:
  std::filesystem::path file_;
  std::size_t outdated_ = 0;
  const std::vector<TuningRecord> shipped_;
  mutable std::mutex mutex_;
  std::vector<TuningRecord> records_;  ///< later ones win: read-only ones, then `file`, then what was added
};

}  // namespace fa2
