// Backward calls that are judged by the gradients' contract, for the tests of any device.
#pragma once

#include <fa2/backward.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_attention.h"

namespace fa2::test {

struct BackwardLayouts {
  Layouts forward;
  Layout d_o, dq, dk, dv;
  bool is_packed = false;  ///< dQ, dK and dV lie in one allocation
};
/// All eight tensors of a problem laid out alike.
BackwardLayouts backward_layouts_of(const AttentionProblem& problem, MakeLayout make);
/// (batch, row, slices): a row has all heads of Q, K and V one after the other, and so have the gradients, in one
/// allocation. O and dO are (batch, seqlen, heads, dim). Not of varlen.
BackwardLayouts packed_layouts_of(const AttentionProblem& problem);

/// Which gradients a call asks for.
struct Wanted {
  bool dq = true, dk = true, dv = true;
  bool d_sinks = false;
};

/// One backward call with memory of its own. Its O and LSE are the reference's, rounded once: no kernel of the forward
/// is needed. NaN lies around the elements of inputs, a pattern around those of the gradients, and in their rows of no
/// sequence; NaN in the gradients themselves.
class GuardedBackward {
 public:
  explicit GuardedBackward(const AttentionProblem& problem);  ///< contiguous (batch, seqlen, heads, dim)
  GuardedBackward(const AttentionProblem& problem, const BackwardLayouts& layouts);

  GuardedCall forward;  ///< its problem, Q, K, V and numbers; its O and LSE are not used
  reference::Tensor d_o;
  std::vector<float> d_lse;  ///< shaped like LSE; empty: a null pointer
  Wanted wanted;
  Determinism determinism = Determinism::fastest;

  /// Other random inputs, uploaded. d_lse, if there is one, is random as well.
  void randomize(unsigned seed);
  void give_d_lse();

  /// Sends the inputs, with the O and LSE that they and `forward.args` give, and resets the gradients. d_o becomes what
  /// is there, as q, k and v do.
  void upload();

  /// Pointers to what upload() sent, as `forward.args` and `wanted` say.
  BackwardArgs args() const;

  /// What breaks the contract: gradients that are wanted and wrong, and stray_writes(). Empty if nothing does. Reads
  /// through the default stream: synchronise others first.
  std::string complaints() const;

  /// What was written where nothing may be: around the gradients, in rows of no sequence, in gradients that nobody
  /// wants. Empty if nothing was.
  std::string stray_writes() const;

  reference::Tensor dq() const { return gradient(0); }
  reference::Tensor dk() const { return gradient(1); }
  reference::Tensor dv() const { return gradient(2); }
  std::vector<float> d_sinks() const;

 private:
  std::size_t allocation_of(std::size_t gradient) const { return layouts_.is_packed ? 0 : gradient; }
  const Layout& layout_of(std::size_t gradient) const;
  bool is_wanted(std::size_t gradient) const;
  /// Whether a row of it is of a sequence.
  bool has_rows(std::size_t gradient) const;
  void* pointer_to(std::size_t gradient) const;
  reference::Tensor gradient(std::size_t gradient) const;
  /// Calls body(index of its first element in its allocation) for every row that is written.
  template <class Body>
  void for_each_written_row(std::size_t gradient, const Body& body) const;
  std::vector<std::uint16_t> blank(std::size_t allocation) const;
  std::vector<std::uint32_t> blank_sinks() const;
  /// What is wrong with dSinks, whose reference is `ref`.
  std::string sinks_complaints(const std::vector<double>& ref) const;
  void upload_outputs();

  BackwardLayouts layouts_;
  DeviceBuffer o_, lse_, d_o_, d_lse_, d_sinks_;
  std::vector<DeviceBuffer> gradients_;  ///< allocations
};

/// Calls body(element) for those of the rows [begin, end) of every batch and head.
template <class Tensor, class Body>
void for_rows(Tensor& tensor, std::int64_t begin, std::int64_t end, const Body& body) {
  for (std::int64_t head = 0; head < tensor.batch * tensor.heads; ++head) {
    const auto first = tensor.values.begin() + head * tensor.rows * tensor.dim;
    std::for_each(first + begin * tensor.dim, first + end * tensor.dim, body);
  }
}

/// Whether all elements are, or those of the rows [begin, end) of every batch and head.
bool are_finite(const reference::Tensor& tensor);
bool are_finite(const reference::Tensor& tensor, std::int64_t begin, std::int64_t end);

/// CHECKs that there are no complaints.
void expect_gradients(const GuardedBackward& call);
/// The same after context.attention_backward() on the default stream.
void run_and_expect_gradients(Context& context, const GuardedBackward& call);

}  // namespace fa2::test
