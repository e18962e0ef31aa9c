// The flags that several verbs share: what to compute, and where.
#pragma once

#include <core/arch.h>
#include <core/enum_words.h>
#include <fa2/attention.h>
#include <generator/kernel_spec.h>
#include <runtime/device.h>
#include <tools/score_options.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::tools {

/// Returns CLI11's check that an option is a word of the enumeration.
template <class Enum>
CLI::IsMember word_check() {
  return CLI::IsMember(words_of<Enum>());
}

/// Adds an option that takes a word of an enumeration.
template <class Enum>
CLI::Option* add_word(CLI::App& verb, const std::string& flag, Enum& value, const std::string& description) {
  const auto set = [&value](const std::string& word) { value = enumerator_of<Enum>(word).value_or(value); };
  return verb.add_option_function<std::string>(flag, set, description)
      ->check(word_check<Enum>())
      ->default_str(std::string(word_of(value)));
}

/// Returns the check of "yes" (causal_bottom_right), "no" or "both".
CLI::IsMember causal_words();
std::vector<MaskKind> masks_of_causal(const std::string& word);

/// The flags `--causal` and `--mask` of one problem.
struct MaskOptions {
  bool causal = false;
  MaskKind named = MaskKind::none;

  void add_to(CLI::App& verb);
  MaskKind mask() const { return causal ? MaskKind::causal_bottom_right : named; }
};

/// @throws CLI::ValidationError listing every rule that a problem made of flags breaks.
void require_valid_flags(const AttentionProblem& problem);

/// One problem and its plan's options: a flag for each of their fields.
struct ProblemOptions {
  PlannedProblem fields = {{.head_dim = 128, .heads_q = 16}, {}};  ///< fields except those below
  MaskOptions mask;
  std::int64_t seqlen = 4096;
  std::optional<std::int64_t> seqlen_q;  ///< unset: seqlen
  std::optional<std::int64_t> seqlen_k;

  void add_to(CLI::App& verb);
  /// Returns the normalized problem. @throws CLI::ValidationError if it is invalid.
  PlannedProblem problem() const;
};

/// Returns the help phrase of a field of a problem or of plan options, from its row.
std::string description_of(std::string_view field);

/// Adds an option for each variant of `problem` that `verb` lacks: `--window-left N`, or a flag such as
/// `--softcap` if the numbers are arguments.
void add_variants(CLI::App& verb, AttentionProblem& problem);

/// Adds an option for each field of `problem` that specialises a kernel and that `verb` lacks.
void add_missing_traits(CLI::App& verb, AttentionProblem& problem);

/// Every combination of head dimension, mask, length and element type; FlashAttention's matrix by default.
struct MatrixOptions {
  std::vector<std::int32_t> head_dims = {64, 128, 256};
  std::vector<std::int64_t> seqlens = {512, 1024, 2048, 4096, 8192, 16384};
  std::vector<std::string> dtypes = {"f16"};
  std::string causal = "both";
  AttentionProblem variants;  ///< variants of every problem
  /// What the texts of scores capture.
  std::shared_ptr<const CaptureOptions> captures = std::make_shared<const CaptureOptions>();
  std::int64_t tokens = 16384;  ///< batch * seqlen of every problem
  std::int64_t hidden = 2048;   ///< heads * head_dim of every problem

  void add_to(CLI::App& verb);
  /// Returns the normalized problems; lengths vary fastest. @throws CLI::ValidationError.
  std::vector<AttentionProblem> problems() const;
};

/// The option `--device auto|interpreter|cuda:N`.
struct DeviceOption {
  std::string text = "auto";

  void add_to(CLI::App& verb);
  const Device& device() const;
};

/// The option `--device auto|cuda:N`, for verbs that measure.
struct GpuOption {
  std::string text = "auto";

  void add_to(CLI::App& verb);
  /// Returns the GPU; for "auto" the first one. @throws Unavailable if there is none, or the device is the interpreter.
  const Device& gpu() const;
};

/// The option `--arch sm_90a`; without it, `--device` names a GPU.
struct TargetOptions {
  std::string arch;
  DeviceOption device;

  void add_to(CLI::App& verb);
};

/// Returns the arch with this name. @throws CLI::ValidationError that names the known ones.
const Arch& arch_of(const std::string& name);

/// Adds an option that takes one value or several: "512,1024".
template <class Value>
CLI::Option* add_list(CLI::App& verb, const std::string& name, std::vector<Value>& values,
                      const std::string& description) {
  CLI::Option* option = verb.add_option(name, values, description)->delimiter(',');
  return values.empty() ? option : option->capture_default_str();
}

}  // namespace fa2::tools
