// The common parts of `fa2 run` and `fa2 run --backward`.
#pragma once

#include <fa2/args.h>
#include <reference/attention_reference.h>
#include <runtime/device_buffer.h>
#include <tools/backward_options.h>
#include <tools/launch_timer.h>
#include <tools/mistakes.h>
#include <tools/problem_options.h>
#include <tools/sequence_options.h>
#include <tools/table.h>
#include <tools/tensor_files.h>
#include <tools/variant_options.h>
#include <tools/verb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2::tools {

struct RunOptions {
  std::string q, k, v;
  std::string out, lse;      ///< outputs of the forward, inputs of the backward
  std::string max_logits;    ///< output of the forward
  std::string d_out, d_lse;  ///< inputs of the backward
  std::string dq, dk, dv;    ///< outputs of the backward
  BackwardOptions backward;
  MaskOptions mask;
  VariantOptions variants;
  SequenceOptions sequences;
  std::optional<float> scale;
  std::optional<float> k_scale, v_scale;  ///< factors of 8-bit keys and values
  std::string layout = "bshd";
  DType dtype = DType::f16;
  DeviceOption device;
  bool check = false;

  Layout file_layout() const { return layout == "bshd" ? Layout::bshd : Layout::bhsd; }
};

/// The inputs of both directions.
struct RunInputs {
  SequenceTables tables;
  HostTensor q, k, v;
  float k_scale = 1, v_scale = 1;  ///< of 8-bit keys and values
  AttentionProblem problem;        ///< without its variants

  /// Returns (batch, heads, seqlen_q), or (heads, total_q).
  std::vector<std::int64_t> lse_shape() const;
  std::size_t lse_count() const;
  /// Returns whether outputs must be float32: a file cannot hold their bits, or an input was float32.
  bool are_float32() const;
};

/// Reads the inputs. @throws Error listing `mistakes` and every file that cannot be read; InvalidRequest listing
/// what is wrong with their shapes and tables.
RunInputs read_inputs(const RunOptions& options, Mistakes& mistakes);

/// The inputs in memory of the context that is current at construction.
class DeviceInputs {
 public:
  explicit DeviceInputs(const RunInputs& in);

  AttentionArgs args(const RunOptions& options, const RunInputs& in, const VariantInputs& variants, void* out,
                     float* lse) const;

 private:
  DeviceBuffer q_, k_, v_, factors_;
  DeviceTables tables_;
};

DeviceBuffer uploaded(const HostTensor& tensor);
DeviceBuffer uploaded(const std::vector<float>& values);

/// Returns memory filled with NaN, so that an element that a kernel leaves out shows.
DeviceBuffer unwritten(std::size_t bytes, const OwnedStream& stream);

reference::ScoreRule rule_of(const RunOptions& options, const RunInputs& in, const VariantInputs& variants);

/// Launches, waits, and shows the interpreter's progress, because it may take minutes.
void run_once(const Launch& launch, const OwnedStream& stream, bool json);

/// Times of bursts on a GPU.
struct RunTime {
  double flops = 0;  ///< of one launch, over the pairs of its sequences
  Spread us;         ///< per launch; microseconds
  int launches = 0;  ///< launches per burst; 0: not measured
};
RunTime measure(const Launch& launch, double flops, const OwnedStream& stream);

/// Return null, or an empty text, if nothing was measured.
Json json_of(const RunTime& time);
std::string text_of(const RunTime& time);

/// Returns the problem, the device, and each kernel with its config.
Lines lines_of(const Explanation& explanation);

Json json_of(const reference::Verdict& verdict);

/// Returns kFailed, after a line on stderr, if the verdict is bad.
Status status_of(bool ok, const std::string& message);

int run_forward(const RunOptions& options, bool json);
int run_backward(const RunOptions& options, bool json);

}  // namespace fa2::tools
