// The numbers of a problem's variants, from flags and files.
#pragma once

#include <fa2/args.h>
#include <reference/attention_reference.h>
#include <runtime/device_buffer.h>
#include <tools/mistakes.h>
#include <tools/score_options.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fa2::tools {

/// `--window-left N`, `--softcap X`, `--alibi FILE`, `--dropout P`: an option for each variant, with its
/// width or its numbers.
struct VariantOptions {
  AttentionProblem fields;                   ///< variants without numbers: windows
  std::map<std::string, float> scalars;      ///< by the problem's field, or the number's name
  std::map<std::string, std::string> files;  ///< files of numbers per head, by the same
  std::optional<Dropout> dropout;
  std::optional<QueryPieces> query_pieces;
  /// What the texts of scores capture.
  std::shared_ptr<const CaptureOptions> captures = std::make_shared<const CaptureOptions>();

  void add_to(CLI::App& verb);
};

/// The variants of one problem, from the options. A device's context must be current.
class VariantInputs {
 public:
  /// Adds the variants to `problem`. Notes each file that cannot be read, or has the wrong shape or element
  /// type.
  VariantInputs(const VariantOptions& options, AttentionProblem& problem, Mistakes& mistakes);

  /// Sets pointers to device memory.
  void add_to(AttentionArgs& args) const;
  /// Sets pointers to host memory.
  void add_to(reference::ScoreRule& rule) const;
  const std::vector<ScoreCapture>& captures_on_host() const { return captures_.on_host(); }

 private:
  struct HeadNumbers {
    std::vector<float> values;
    DeviceBuffer on_device{0};
    bool per_batch = false;
  };
  using File = std::pair<const std::string, std::string>;  ///< an option and its path
  static HeadNumbers read(const File& file, const AttentionProblem& problem, bool may_be_per_batch);

  std::map<std::string, float> scalars_;
  std::map<std::string, HeadNumbers> of_heads_;
  Dropout dropout_;
  QueryPieces query_pieces_;
  CaptureInputs captures_;
};

}  // namespace fa2::tools
