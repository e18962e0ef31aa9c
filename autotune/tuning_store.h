// Tuning records on disk: JSON lines, appended, one record per (GPU, bucket); the last one wins.
#pragma once

#include <autotune/bucket.h>
#include <fa2/attention.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fa2 {

struct TuningRecord {
  std::string device;  ///< device name
  std::string arch;    ///< "sm_90a"
  int sm_count = 0;
  Bucket bucket;
  KernelConfig config;
  double us = 0;  ///< median of the winner
  double heuristic_us = 0;
  std::string templates;  ///< digest of the templates it was measured with
  std::string date;       ///< ISO 8601, UTC
};

/// How well a record matched.
enum class Match : std::uint8_t { exact, nearest, other_device, none };

struct Lookup {
  Match match = Match::none;
  TuningRecord record;  ///< meaningful unless none
};

/// One line of JSON, and back. parse: nullopt for a line that is not a record (damaged, other format
/// version).
std::string to_json_line(const TuningRecord& record);
std::optional<TuningRecord> parse_json_line(const std::string& line);

/// Thread-safe; processes append with O_APPEND under an advisory lock. Damaged lines are skipped with one
/// warning.
class TuningStore {
 public:
  /// `file` may not exist yet. Empty: in memory only. `read_only`: further files consulted after `file`,
  /// never written.
  explicit TuningStore(std::filesystem::path file, std::vector<std::filesystem::path> read_only = {});

  /// exact: same device, same bucket. nearest: same device, distance <= 3. other_device: same arch, same
  /// bucket. Records whose config `is_valid` refuses are passed over.
  Lookup find(const std::string& device, const std::string& arch, int sm_count, const Bucket& bucket,
              const std::function<bool(const KernelConfig&)>& is_valid) const;

  /// Remembers and appends. A file that cannot be written costs only the persistence, with one warning.
  void add(const TuningRecord& record);

  std::vector<TuningRecord> records() const;
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::vector<TuningRecord> records_;  ///< later ones win: read-only files, then `file`, then what was added
};

}  // namespace fa2
