// The flags that several verbs share: what to compute, and where.
#pragma once

#include <fa2/attention.h>
#include <generator/arch.h>
#include <runtime/device.h>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace fa2::tools {

/// Checked words to enums. @throws CLI::ValidationError for a word that is none.
DType dtype_of(const std::string& word);
RowAlignment alignment_of(const std::string& word);
MaskKind mask_of(const std::string& word);
TuneMode tune_mode_of(const std::string& word);

/// `--causal yes|no|both` as masks; yes is causal_bottom_right.
std::vector<MaskKind> masks_of_causal(const std::string& word);

/// Validators for the same words.
CLI::IsMember dtype_words();
CLI::IsMember mask_words();
CLI::IsMember tune_words();
CLI::IsMember causal_words();

/// `--causal` and `--mask` of one problem.
struct MaskOptions {
  bool causal = false;
  std::string word = "none";

  void add_to(CLI::App& verb);
  MaskKind mask() const { return causal ? MaskKind::causal_bottom_right : mask_of(word); }
};

/// One problem.
struct ProblemOptions {
  std::string dtype = "f16";
  std::string alignment = "bytes16";
  MaskOptions mask;
  std::int32_t head_dim = 128;
  std::int32_t head_dim_v = 0;
  std::int64_t batch = 1;
  std::int64_t heads = 16;
  std::int64_t heads_kv = 0;
  std::int64_t seqlen = 4096;
  std::int64_t seqlen_q = -1;  ///< -1: seqlen
  std::int64_t seqlen_k = -1;

  void add_to(CLI::App& verb);
  /// Normalized. @throws CLI::ValidationError listing every rule that the flags break.
  AttentionProblem problem() const;
};

/// `--device auto|cuda:N`.
struct DeviceOption {
  std::string text = "auto";

  void add_to(CLI::App& verb);
  /// @throws Unavailable, with what works without a GPU, if there is none.
  const Device& device() const;
};

/// `--arch sm_90a` or, where it is left out, a GPU.
struct TargetOptions {
  std::string arch;
  DeviceOption device;

  void add_to(CLI::App& verb);
};

/// An arch's row by name. @throws CLI::ValidationError naming the known ones.
const Arch& arch_of(const std::string& name);

/// "4096", "512,1024": an option that takes comma separated values.
template <class Value>
CLI::Option* add_list(CLI::App& verb, const std::string& name, std::vector<Value>& values,
                      const std::string& description) {
  return verb.add_option(name, values, description)->delimiter(',')->capture_default_str();
}

}  // namespace fa2::tools
