// The flags that several verbs share: what to compute, and where.
#pragma once

#include <fa2/attention.h>
#include <generator/arch.h>
#include <runtime/device.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

/// Words that options accept, for CLI11 to check, and what they mean.
CLI::IsMember dtype_words();
DType dtype_of(const std::string& word);

CLI::IsMember alignment_words();
RowAlignment alignment_of(const std::string& word);

CLI::IsMember mask_words();
MaskKind mask_of(const std::string& word);

/// "yes" (causal_bottom_right), "no", "both".
CLI::IsMember causal_words();
std::vector<MaskKind> masks_of_causal(const std::string& word);

CLI::IsMember tune_words();
TuneMode tune_mode_of(const std::string& word);

/// `--causal` and `--mask` of one problem.
struct MaskOptions {
  bool causal = false;
  std::string word = "none";

  void add_to(CLI::App& verb);
  MaskKind mask() const { return causal ? MaskKind::causal_bottom_right : mask_of(word); }
};

/// @throws CLI::ValidationError listing every rule that a problem made of flags breaks.
void require_valid_flags(const AttentionProblem& problem);

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
  std::optional<std::int64_t> seqlen_q;  ///< where it is not seqlen
  std::optional<std::int64_t> seqlen_k;

  void add_to(CLI::App& verb);
  /// Normalized. @throws CLI::ValidationError.
  AttentionProblem problem() const;
};

/// Every combination of head dimension, mask, length and element type; FlashAttention's matrix by default.
struct MatrixOptions {
  std::vector<std::int32_t> head_dims = {64, 128, 256};
  std::vector<std::int64_t> seqlens = {512, 1024, 2048, 4096, 8192, 16384};
  std::vector<std::string> dtypes = {"f16"};
  std::string causal = "both";
  std::int64_t tokens = 16384;  ///< batch * seqlen
  std::int64_t hidden = 2048;   ///< heads * head_dim

  void add_to(CLI::App& verb);
  /// Normalized; lengths vary fastest. @throws CLI::ValidationError.
  std::vector<AttentionProblem> problems() const;
};

/// `--device auto|interpreter|cuda:N`.
struct DeviceOption {
  std::string text = "auto";

  void add_to(CLI::App& verb);
  const Device& device() const;
};

/// `--device auto|cuda:N` of what measures.
struct GpuOption {
  std::string text = "auto";

  void add_to(CLI::App& verb);
  /// auto: the first GPU. @throws Unavailable if there is none, or it is the interpreter.
  const Device& gpu() const;
};

/// `--arch sm_90a` or, where it is left out, a GPU.
struct TargetOptions {
  std::string arch;
  DeviceOption device;

  void add_to(CLI::App& verb);
};

/// An arch's row by name. @throws CLI::ValidationError naming the known ones.
const Arch& arch_of(const std::string& name);

/// Adds an option that takes one value or several: "512,1024".
template <class Value>
CLI::Option* add_list(CLI::App& verb, const std::string& name, std::vector<Value>& values,
                      const std::string& description) {
  CLI::Option* option = verb.add_option(name, values, description)->delimiter(',');
  return values.empty() ? option : option->capture_default_str();
}

}  // namespace fa2::tools
