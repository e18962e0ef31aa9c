// Device memory that all points of a benchmark share.
#pragma once

#include <core/element_type.h>
#include <fa2/backward.h>
#include <runtime/device_buffer.h>
#include <tools/score_options.h>
#include <tools/sequence_tables.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace fa2::tools {

/// The direction that is measured.
enum class Direction : std::uint8_t { forward, backward };

/// Tensors that are large enough for the largest problem, in the context that is current at construction. Q,
/// K and V have normally distributed values, for every element type in use. There are one O, one number per head for
/// the variants and for max_logits, and tables for varlen problems. For backwards there are also dO with such values, one LSE
/// and one of each gradient.
class BenchInputs {
 public:
  /// `copies`: of K and V for each problem, one after the other; 1 if not given.
  explicit BenchInputs(const std::vector<AttentionProblem>& problems, const SequenceTables& tables = {},
                       Direction direction = Direction::forward, const std::vector<int>& copies = {});

  /// Makes args() give these captures.
  void capture(std::shared_ptr<const CaptureOptions> captures) { captures_.emplace(std::move(captures)); }

  /// Returns arguments: contiguous (batch, seqlen, heads, dim), (total, heads, dim) or pages. With LSE if
  /// there is one.
  AttentionArgs args(const AttentionProblem& problem, int copy = 0) const;
  /// Returns arguments for all gradients; for Direction::backward. The problem's own forward must have
  /// written O and LSE.
  BackwardArgs backward_args(const AttentionProblem& problem) const;

 private:
  struct Queries {
    DeviceBuffer q, d_out;
  };
  struct Keys {
    DeviceBuffer k, v;
  };

  std::map<DType, Queries> queries_;
  std::map<ElementType, Keys> keys_;
  DeviceBuffer o_, lse_, max_logits_, dq_, dk_, dv_, of_heads_;
  DeviceTables tables_;
  std::optional<CaptureInputs> captures_;
};

}  // namespace fa2::tools
