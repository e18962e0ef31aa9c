// The numbers of a problem's variants, from flags and files.
#pragma once

#include <fa2/args.h>
#include <reference/attention_reference.h>
#include <runtime/device_buffer.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

/// `--window-left`, `--window-right`, `--softcap`, `--alibi`, `--sinks`.
struct VariantOptions {
  std::optional<std::int64_t> window_left, window_right;
  std::optional<float> softcap;
  std::string alibi, sinks;  ///< files

  void add_to(CLI::App& verb);
};

/// What the options say, for one problem. Needs a device's context current.
class VariantInputs {
 public:
  /// Gives `problem` its variants. @throws Error naming a file that cannot be read, or has another shape than heads.
  VariantInputs(const VariantOptions& options, AttentionProblem& problem);

  void add_to(AttentionArgs& args) const;
  void add_to(reference::ScoreRule& rule) const;

 private:
  /// Uploaded; no bytes if there is no file.
  struct Numbers {
    std::vector<float> values;
    DeviceBuffer on_device{0};
  };
  static Numbers read(const std::string& path, const std::vector<std::vector<std::int64_t>>& shapes);

  float softcap_ = 0;
  Numbers slopes_, sinks_;
  bool slopes_per_batch_ = false;
};

}  // namespace fa2::tools
