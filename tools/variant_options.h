// The numbers of a problem's variants, from flags and files.
#pragma once

#include <fa2/args.h>
#include <reference/attention_reference.h>
#include <runtime/device_buffer.h>

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

/// `--window-left N`, `--softcap X`, `--alibi FILE`, `--dropout P`: an option for each variant, with its size or its numbers.
struct VariantOptions {
  AttentionProblem fields;                   ///< what needs no number: widths
  std::map<std::string, float> scalars;      ///< by the problem's field
  std::map<std::string, std::string> files;  ///< the same, where each head has a number
  std::optional<Dropout> dropout;

  void add_to(CLI::App& verb);
};

/// What the options say, for one problem. Needs a device's context current.
class VariantInputs {
 public:
  /// Gives `problem` its variants. @throws Error naming a file that cannot be read, or has not the shape and element
  /// type that it must have.
  VariantInputs(const VariantOptions& options, AttentionProblem& problem);

  /// Pointers to device memory.
  void add_to(AttentionArgs& args) const;
  /// Pointers to host memory.
  void add_to(reference::ScoreRule& rule) const;

 private:
  struct HeadNumbers {
    std::vector<float> values;
    DeviceBuffer on_device{0};
    bool per_batch = false;
  };
  static HeadNumbers read(const std::string& path, const AttentionProblem& problem, bool may_be_per_batch);

  std::map<std::string, float> scalars_;
  std::map<std::string, HeadNumbers> of_heads_;
  Dropout dropout_;
};

}  // namespace fa2::tools
