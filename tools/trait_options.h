// The flags of `fa2 precompile` that select kernels: every combination of the traits that specialise a
// kernel.
#pragma once

#include <tools/hf_config.h>
#include <tools/problem_options.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fa2::tools {

struct TraitOptions {
  std::vector<std::int32_t> head_dims = {64, 128};
  std::vector<std::int32_t> head_dims_v = {0};
  std::vector<std::string> dtypes = words_of<DType>();
  std::string causal = "both";
  std::vector<std::string> masks;
  std::string alignment = "bytes16";
  std::map<std::string, std::string> variants;  ///< "yes", "no" or "both", by the problem's field
  AttentionProblem fields;                      ///< the traits without an option above

  void add_to(CLI::App& verb);
  /// Replaces the options by the model's.
  void take(const HfModel& model);
  /// Returns the flags that take() sets: "--head-dim 256 --dtype bf16 --causal yes --window-left both
  /// --softcap yes".
  std::string flags() const;
  /// Returns every combination except of plan options, to precompile the forward alone or with its `backward`. Lengths and heads do
  /// not specialise. @throws CLI::ValidationError.
  std::vector<AttentionProblem> problems(bool backward) const;
  std::vector<PlanOptions> plans() const;
};

}  // namespace fa2::tools
