// The flags of texts of scores and of what these capture.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>
#include <fa2/score_text.h>
#include <runtime/device_buffer.h>
#include <tools/npy.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::tools {

/// A capture that a flag describes.
struct CaptureOption {
  const char* flag = "--capture";  ///< which describes it
  CaptureSpec spec;
  bool has_value = false;
  double number = 0;    ///< of a number
  std::string file;     ///< of a tensor; empty: a number, or there is no value
  CapturedArray array;  ///< of a tensor: what the file holds

  /// Returns the capture of a call. `data`: the tensor's elements, where the call reads them.
  ScoreCapture capture(const void* data) const;
};

/// Parses NAME=FILE.npy, NAME=0.5 (a float), NAME=2 (an integer), NAME=true, or without a value NAME:TYPE:DIMENSIONS of a tensor and
/// NAME:TYPE of a number. @throws CLI::ValidationError.
CaptureOption parse_capture(std::string_view text);

using CaptureOptions = std::vector<CaptureOption>;

/// Whether a verb computes, so that it needs what captures hold.
enum class CaptureValues : std::uint8_t { optional, required };

/// Adds options that name files with texts of scores, and their captures. The texts' number becomes `number`. Returns the captures,
/// which parsing fills in.
std::shared_ptr<const CaptureOptions> add_score_texts(CLI::App& verb, std::int64_t& number,
                                                      CaptureValues values = CaptureValues::optional);

/// Captures of a call, on the host and in memory of the context that is current at construction.
class CaptureInputs {
 public:
  explicit CaptureInputs(std::shared_ptr<const CaptureOptions> options);
  CaptureInputs(const CaptureInputs&) = delete;
  CaptureInputs& operator=(const CaptureInputs&) = delete;

  /// Sets pointers to device memory.
  void add_to(AttentionArgs& args) const;
  /// @throws Error if the sizes of --bias are not those of the problem or 1.
  void require_sizes(const AttentionProblem& problem) const;
  /// Returns the captures with pointers to host memory.
  const std::vector<ScoreCapture>& on_host() const { return on_host_; }

 private:
  std::shared_ptr<const CaptureOptions> options_;
  std::list<DeviceBuffer> buffers_;
  std::vector<ScoreCapture> on_device_, on_host_;
};

}  // namespace fa2::tools
