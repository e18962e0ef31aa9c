// What programs ask of fa2, in files: FA2_LOG_REQUESTS writes them, and precompiling reads them.
#pragma once

#include <autotune/config_choice.h>
#include <core/enum_words.h>
#include <fa2/backward.h>
#include <generator/kernel_spec.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

/// The operations that run kernels.
enum class Operation : std::uint8_t { forward, backward, append, merge, dropout_mask };

template <>
inline constexpr EnumWord<Operation> kWords<Operation>[] = {
    {Operation::forward, "forward"}, {Operation::backward, "backward"},         {Operation::append, "append"},
    {Operation::merge, "merge"},     {Operation::dropout_mask, "dropout_mask"},
};

/// One problem of an operation, on a GPU.
struct PlanRequest {
  Operation operation = Operation::forward;
  PlannedProblem
      problem;          ///< normalized; of append, merge and dropout_mask, all that their kernel depends on
  Gradients gradients;  ///< of a backward
  Target target;        ///< without device name and SM count if the GPU is not known
};

/// Returns one line of JSON, without its end:
///   {"operation": "forward", "arch": "sm_90a", "device": "NVIDIA H100", "sm_count": 132, "problem": {"dtype": "bf16", ...}}
/// A backward has "gradients", too.
std::string to_json_line(const PlanRequest& request);

/// Parses lines of to_json_line(), each different one once, in order. Fields that are missing have their defaults.
/// @throws InvalidRequest listing what is wrong with every line; messages name it `origin`.
std::vector<PlanRequest> parse_requests(std::string_view text, const std::string& origin);

/// Parses a file. @throws InvalidRequest; CacheError if it cannot be read.
std::vector<PlanRequest> read_requests(const std::filesystem::path& file);

/// Appends requests to a file, each once per process. Thread-safe; processes may share the file. A file that cannot be written, or
/// has grown beyond 64 MB, costs one warning and its lines.
class RequestLog {
 public:
  /// nullopt: logs nothing.
  explicit RequestLog(std::optional<std::filesystem::path> file) : file_(std::move(file)) {}

  void add(const PlanRequest& request);

 private:
  std::optional<std::filesystem::path> file_;
  std::mutex mutex_;
  std::set<std::string> logged_;  ///< hashes of lines; guarded by mutex_
};

}  // namespace fa2
