// What the GPU tests share: strided tensors on host and GPU with guarded surroundings, and attention calls
// that are judged by the numerics contract.
#pragma once

#include <fa2/attention.h>
#include <reference/attention_reference.h>
#include <reference/sequences.h>
#include <runtime/device_buffer.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device_under_test.h"

namespace fa2::test {

/// Without tuning; kernels go to `cache_dir`.
ContextOptions untuned(const std::filesystem::path& cache_dir);

/// The same with the cache that every test shares: TEST_KERNEL_CACHE names one that outlasts the process, as
/// scripts/run_tests.sh does, so that its runs compile a kernel once.
ContextOptions untuned();

/// The same with a kernel's configuration pinned.
ContextOptions pinning(const KernelConfig& config);

/// Compiles the heuristic's kernels of all problems on every core, ahead of their calls one by one.
void precompile(Context& context, const std::vector<AttentionProblem>& problems,
                const std::vector<PlanOptions>& plans = std::vector<PlanOptions>(1));

/// Two sequences of 4 query heads in groups of 2.
inline AttentionProblem grouped_problem(DType dtype, MaskKind mask, int dim, int seqlen_q, int seqlen_k) {
  return {.dtype = dtype,
          .head_dim = dim,
          .mask = mask,
          .batch = 2,
          .heads_q = 4,
          .heads_kv = 2,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k};
}

struct Shape {
  std::int64_t batch = 0, heads = 0, rows = 0, dim = 0;
};

/// What memory is filled with: NaN in either dtype where nothing may be read, a pattern where nothing may be written.
constexpr std::uint16_t kNaNBits = 0xffff, kPatternBits = 0xa5a5;

/// Where the elements of a tensor lie in an allocation. Numbers of elements.
struct Layout {
  Shape shape;
  TensorStrides strides;
  std::int64_t first = 0;  ///< offset of element (0, 0, 0, 0)
  std::int64_t total = 0;  ///< size of the allocation
};

/// A layout of any strides between two guards of kGuard elements; `shift` elements after the first guard.
constexpr std::int64_t kGuard = 64;
Layout guarded(const Shape& shape, const TensorStrides& strides, std::int64_t shift = 0);
Layout guarded_bshd(const Shape& shape);
Layout guarded_bhsd(const Shape& shape);
/// (batch, seqlen, heads, dim) with rows that are aligned to one element alone.
Layout misaligned(const Shape& shape);

/// Calls body(batch, head, row, offset of the row's first element).
template <class Body>
void for_each_row(const Layout& layout, const Body& body) {
  const TensorStrides& s = layout.strides;
  for (std::int64_t b = 0; b < layout.shape.batch; ++b) {
    for (std::int64_t h = 0; h < layout.shape.heads; ++h) {
      for (std::int64_t r = 0; r < layout.shape.rows; ++r)
        body(b, h, r, layout.first + b * s.batch + h * s.head + r * s.row);
    }
  }
}

/// Writes a tensor's elements into the image of an allocation, and reads them.
void scatter(const reference::Tensor& tensor, const Layout& layout, DType dtype,
             std::vector<std::uint16_t>& image);
reference::Tensor gather(const std::vector<std::uint16_t>& image, const Layout& layout, DType dtype);

/// Memory of the default device for a layout's elements, and the address of one of them.
DeviceBuffer buffer_for(const Layout& layout);
std::uint16_t* element(const DeviceBuffer& buffer, std::int64_t offset);

/// Sends a tensor, NaN around its elements. It becomes what the memory holds: elements may share memory.
void send(reference::Tensor& tensor, const Layout& layout, DType dtype, DeviceBuffer& buffer);

/// What a buffer holds.
template <class Word>
std::vector<Word> downloaded(const DeviceBuffer& buffer) {
  std::vector<Word> image(buffer.size() / sizeof(Word));
  buffer.download(image.data(), buffer.size());
  return image;
}

/// Normally distributed, rounded to dtype; the same for the same seed.
reference::Tensor random_tensor(const Shape& shape, DType dtype, unsigned seed);
/// Every element the same.
reference::Tensor constant_tensor(const Shape& shape, float value);

/// The bits of each value.
std::vector<std::uint16_t> bits_of(const reference::Tensor& tensor, DType dtype);

struct Layouts {
  Layout q, k, v, o;
};
using MakeLayout = Layout (*)(const Shape&);
/// All four tensors of a problem laid out alike.
Layouts layouts_of(const AttentionProblem& problem, MakeLayout make);

/// Those that AttentionArgs has, on the host; empty: a null pointer.
struct SequenceTables {
  std::vector<std::int32_t> cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k;
  std::vector<std::int32_t> page_table =
      {};  ///< a row of pages_of_sequence() and one entry more for each of the batch
};

/// One attention call with memory of its own. NaN lies around the elements of Q, K and V, a pattern around
/// those of O and LSE, and in their rows of no sequence; NaN in O and LSE themselves.
class GuardedCall {
 public:
  explicit GuardedCall(const AttentionProblem& problem);  ///< contiguous (batch, heads, seqlen, dim)
  GuardedCall(const AttentionProblem& problem, const Layouts& layouts);

  AttentionProblem problem;  ///< normalized
  reference::Tensor q, k, v;
  std::map<std::string, std::vector<float>>
      numbers;  ///< of every head, or of every batch and head; by arguments
  /// Of one with dropout: what the device reads, a seed and an offset; empty: args have them.
  std::vector<std::uint64_t> dropout_state;
  SequenceTables tables;  ///< of one with varlen; at first packed sequences have no rows
  AttentionArgs
      args;  ///< pointers and strides of the tensors; the default scale, a softcap of 5, dropout of 0.3

  /// Other random inputs, uploaded.
  void randomize(unsigned seed);

  /// Sends the inputs and resets O and LSE. Where elements share memory (strides of 0), q, k and v become
  /// what is there.
  void upload();

  std::vector<reference::Sequence> sequences() const;

  /// The scale, and the numbers and tables that are on the host.
  reference::ScoreRule rule() const;

  /// The numerics contract, nothing written outside of O and LSE, and no LSE if none was asked for. Reads
  /// through the default stream: synchronise others first.
  reference::Verdict check() const;

  /// What was written where nothing may be, rows of no sequence included; empty if nothing was.
  std::string stray_writes() const;

  reference::Tensor o() const;
  std::vector<float> lse() const;
  /// Whether O and LSE are bit for bit what upload() left.
  bool is_untouched() const;

 private:
  /// Calls body(index of its first element in O's memory, index in LSE's) for every row that is written.
  template <class Body>
  void for_each_output(const Body& body) const;
  void make_numbers();
  void upload_numbers();
  void upload_tables();
  std::vector<std::uint16_t> blank_o() const;
  std::vector<std::uint32_t> blank_lse() const;
  std::size_t lse_size() const {
    const Shape& o = layouts_.o.shape;
    return static_cast<std::size_t>(o.batch * o.heads * o.rows);
  }

  Layouts layouts_;
  DeviceBuffer q_, k_, v_, o_, lse_, numbers_, tables_, dropout_state_, page_table_;
};

/// CHECKs call.check().
void expect_contract(const GuardedCall& call);
/// The same after context.attention() on the default stream.
void run_and_expect_contract(Context& context, const GuardedCall& call);

}  // namespace fa2::test
