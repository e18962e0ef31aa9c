// Backward calls that are checked by the gradients' contract, on any device.
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
  Layout d_out, dq, dk, dv;
  bool is_packed = false;  ///< dQ, dK and dV lie in one allocation
};
/// Returns the same kind of layout for all eight tensors of a problem.
BackwardLayouts backward_layouts_of(const AttentionProblem& problem, MakeLayout make);
/// Returns layouts whose rows hold all heads of Q, K and V one after the other; the gradients likewise, in
/// one allocation. O and dO are (batch, seqlen, heads, dim). The problem must not have varlen.
BackwardLayouts packed_layouts_of(const AttentionProblem& problem);

/// The gradients that a call asks for.
struct Wanted {
  bool dq = true, dk = true, dv = true;
  bool d_sinks = false;
};

/// One backward call with its own memory. Its O and LSE are the reference's, rounded once, so no forward
/// kernel is needed. NaN lies around the elements of inputs. A pattern lies around those of the gradients,
/// and in their rows of no sequence. The gradients themselves begin as NaN.
class GuardedBackward {
 public:
  explicit GuardedBackward(const AttentionProblem& problem);  ///< contiguous (batch, seqlen, heads, dim)
  GuardedBackward(const AttentionProblem& problem, const BackwardLayouts& layouts);

  GuardedCall forward;  ///< its problem, Q, K, V and numbers are used; its O and LSE are not
  reference::Tensor d_out;
  std::vector<float> d_lse;  ///< shaped like LSE; empty: a null pointer
  Wanted wanted;
  Determinism determinism = Determinism::fastest;

  /// Draws other random inputs, also d_lse if there is one, and uploads them.
  void randomize(unsigned seed);
  void give_d_lse();

  /// Uploads the inputs, and the O and LSE that follow from them and from `forward.args`; resets the
  /// gradients. Like q, k and v, d_out becomes what the memory holds.
  void upload();

  /// Returns pointers to what upload() sent, as `forward.args` and `wanted` say.
  BackwardArgs args() const;

  /// Describes what breaks the contract: wrong gradients among the wanted ones, and stray_writes(). Empty if
  /// nothing does. Reads on the default stream: other streams must be synchronised first.
  std::string complaints() const;

  /// Describes what was written in forbidden places: around the gradients, in rows of no sequence, in
  /// gradients that are not wanted. Empty if nothing was.
  std::string stray_writes() const;

  reference::Tensor dq() const { return gradient(0); }
  reference::Tensor dk() const { return gradient(1); }
  reference::Tensor dv() const { return gradient(2); }
  std::vector<float> d_sinks() const;

 private:
  std::size_t allocation_of(std::size_t gradient) const { return layouts_.is_packed ? 0 : gradient; }
  const Layout& layout_of(std::size_t gradient) const;
  bool is_wanted(std::size_t gradient) const;
  /// Returns whether a row of the gradient belongs to a sequence.
  bool has_rows(std::size_t gradient) const;
  void* pointer_to(std::size_t gradient) const;
  reference::Tensor gradient(std::size_t gradient) const;
  /// Calls body(index of the first element in its allocation) for every row that is written.
  template <class Body>
  void for_each_written_row(std::size_t gradient, const Body& body) const;
  std::vector<std::uint16_t> blank(std::size_t allocation) const;
  std::vector<std::uint32_t> blank_sinks() const;
  /// Describes errors of dSinks, whose reference is `ref`.
  std::string sinks_complaints(const std::vector<double>& ref) const;
  void upload_outputs();

  BackwardLayouts layouts_;
  DeviceBuffer out_, lse_, d_out_, d_lse_, d_sinks_;
  std::vector<DeviceBuffer> gradients_;  ///< allocations
};

/// Calls body(element) for the elements in rows [begin, end) of every batch and head.
template <class Tensor, class Body>
void for_rows(Tensor& tensor, std::int64_t begin, std::int64_t end, const Body& body) {
  for (std::int64_t head = 0; head < tensor.batch * tensor.heads; ++head) {
    const auto first = tensor.values.begin() + head * tensor.rows * tensor.dim;
    std::for_each(first + begin * tensor.dim, first + end * tensor.dim, body);
  }
}

/// Returns whether all elements are finite, or those in rows [begin, end) of every batch and head.
bool are_finite(const reference::Tensor& tensor);
bool are_finite(const reference::Tensor& tensor, std::int64_t begin, std::int64_t end);

/// CHECKs that errors are at most twice the baseline's.
void expect_close(const char* name, const reference::Tensor& gradient, const reference::Tensor& exact,
                  const reference::Tensor& baseline);

/// CHECKs that complaints() is empty.
void expect_gradients(const GuardedBackward& call);
/// Runs context.attention_backward() on the default stream, then CHECKs the gradients.
void run_and_expect_gradients(Context& context, const GuardedBackward& call);

}  // namespace fa2::test
