// Tuning records on disk: JSON lines, appended, one record per (GPU, bucket); the last one wins.
#pragma once

#include <autotune/bucket.h>
#include <fa2/attention.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

struct TuningRecord {
  std::string device;  ///< device name
  std::string arch;    ///< "sm_90a"
  int sm_count = 0;
  Bucket bucket;  ///< of the config's pass: its line says that once
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

/// One line of JSON, and back. parse: nullopt for a line that is not a record (damaged, other format
/// version).
std::string to_json_line(const TuningRecord& record);
std::optional<TuningRecord> parse_json_line(const std::string& line);

/// The records of a text, in its order. Damaged lines are skipped with one warning that names `origin`.
std::vector<TuningRecord> parse_json_lines(std::string_view text, const std::string& origin);

/// Those that ship with the library, parsed once: measured on other machines, for GPUs by their names.
const std::vector<TuningRecord>& shipped_records();

/// Thread-safe; processes append with O_APPEND under an advisory lock.
class TuningStore {
 public:
  /// `file` may not exist yet. Empty: in memory only. `read_only`: further files consulted after `file`,
  /// never written. `shipped`: consulted last.
  explicit TuningStore(std::filesystem::path file, std::vector<std::filesystem::path> read_only = {},
                       std::vector<TuningRecord> shipped = {});

  /// exact: same device, same bucket. nearest: same device, distance <= 3. other_device: same arch, same
  /// bucket. A shipped record serves if it matches better than any other does. Records whose config
  /// `is_valid` refuses are passed over.
  Lookup find(const std::string& device, const std::string& arch, int sm_count, const Bucket& bucket,
              const std::function<bool(const KernelConfig&)>& is_valid) const;

  /// Every record of these traits and this pass on this arch that may be found, on whatever GPU: the user's, then those
  /// shipped; as Match::other_device.
  std::vector<Lookup> of_traits(const std::string& traits, KernelPass pass, const std::string& arch) const;

  /// Remembers and appends. A file that cannot be written costs only the persistence, with one warning.
  void add(const TuningRecord& record);

  /// All but the shipped ones.
  std::vector<TuningRecord> records() const;
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  const std::vector<TuningRecord> shipped_;
  mutable std::mutex mutex_;
  std::vector<TuningRecord> records_;  ///< later ones win: read-only files, then `file`, then what was added
};

}  // namespace fa2
