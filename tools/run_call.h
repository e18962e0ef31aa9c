// What both directions of `fa2 run` have in common.
#pragma once

#include <fa2/args.h>
#include <reference/attention_reference.h>
#include <runtime/device_buffer.h>
#include <tools/backward_options.h>
#include <tools/measure.h>
#include <tools/problem_options.h>
#include <tools/sequence_options.h>
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
  std::string out;            ///< of the forward
  std::string lse;            ///< which the forward writes and the backward reads
  std::string o, d_o, d_lse;  ///< what the backward reads
  std::string dq, dk, dv;     ///< what it writes
  BackwardOptions backward;
  MaskOptions mask;
  VariantOptions variants;
  SequenceOptions sequences;
  std::optional<float> scale;
  std::string layout = "bshd";
  DType dtype = DType::f16;
  DeviceOption device;
  bool check = false;

  Layout file_layout() const { return layout == "bshd" ? Layout::bshd : Layout::bhsd; }
};

/// What both directions read.
struct RunInputs {
  SequenceTables tables;
  HostTensor q, k, v;
  AttentionProblem problem;  ///< without its variants

  /// (batch, heads, seqlen_q), or (heads, total_q).
  std::vector<std::int64_t> lse_shape() const;
  std::size_t lse_count() const;
  /// Whether a file cannot take the bits as they are, or was not given as them.
  bool are_float32() const;
};

/// @throws Error naming a file and what is wrong with it; InvalidRequest.
RunInputs read_inputs(const RunOptions& options);

/// The inputs in memory of the context that is current when it is made.
class DeviceInputs {
 public:
  explicit DeviceInputs(const RunInputs& in);

  AttentionArgs args(const RunOptions& options, const RunInputs& in, const VariantInputs& variants, void* o,
                     float* lse) const;

 private:
  DeviceBuffer q_, k_, v_;
  DeviceTables tables_;
};

DeviceBuffer uploaded(const HostTensor& tensor);
DeviceBuffer uploaded(const std::vector<float>& values);

/// Filled with NaN: an element that a kernel leaves out shows.
DeviceBuffer unwritten(std::size_t bytes, const OwnedStream& stream);

reference::ScoreRule rule_of(const RunOptions& options, const RunInputs& in, const VariantInputs& variants);

/// Launches, waits, and shows how far the interpreter has come, which may take minutes.
void run_once(const Launch& launch, const OwnedStream& stream, bool json);

/// Of bursts on a GPU.
struct RunTime {
  double flops = 0;  ///< of one launch, over the pairs of its sequences
  Spread us;         ///< of one launch
  int launches = 0;  ///< a burst; 0: not measured
};
RunTime measure(const Launch& launch, double flops, const OwnedStream& stream);

/// Null, and empty, if nothing was measured.
Json json_of(const RunTime& time);
std::string text_of(const RunTime& time);

Json json_of(const reference::Verdict& verdict);

/// kFailed, with a line on stderr, if the verdict is bad.
Status status_of(bool ok, const std::string& message);

int run_forward(const RunOptions& options, bool json);
int run_backward(const RunOptions& options, bool json);

}  // namespace fa2::tools
