// Strided tensors on host and device with guarded surroundings, and attention calls that are checked by the
// numerics contract.
#pragma once

#include <core/element_type.h>
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
#include "random_tensor.h"

namespace fa2::test {

/// Returns options without tuning. Kernels go to `cache_dir`.
ContextOptions untuned(const std::filesystem::path& cache_dir);

/// Returns options without tuning, with the cache that all tests share. TEST_KERNEL_CACHE may name a cache
/// that outlasts the process; scripts/run_tests.sh sets it, so that its runs compile a kernel once.
ContextOptions untuned();

/// Returns untuned() with a pinned config.
ContextOptions pinning(const KernelConfig& config);

/// Returns options under which only kernels of `pack` run. It is the context's own cache, because interpreted kernels
/// of read-only packs are not trusted.
ContextOptions serving(const std::filesystem::path& pack);

/// Compiles the heuristic's kernels of all problems on every core, because calls would compile them one by
/// one.
void precompile(Context& context, const std::vector<AttentionProblem>& problems,
                const std::vector<PlanOptions>& plans = std::vector<PlanOptions>(1));

/// Returns a problem of two sequences with 4 query heads in groups of 2.
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

/// The fill of memory: NaN in either dtype where nothing may be read, a pattern where nothing may be written.
constexpr std::uint16_t kNaNBits = 0xffff, kPatternBits = 0xa5a5;

/// Where the elements of a tensor lie in an allocation. Everything counts elements.
struct Layout {
  Shape shape;
  TensorStrides strides;
  std::int64_t first = 0;  ///< offset of element (0, 0, 0, 0)
  std::int64_t total = 0;  ///< size of the allocation
};

/// guarded() returns a layout with any strides between two guards of kGuard elements, `shift` elements after
/// the first guard.
constexpr std::int64_t kGuard = 64;
Layout guarded(const Shape& shape, const TensorStrides& strides, std::int64_t shift = 0);
Layout guarded_bshd(const Shape& shape);
Layout guarded_bhsd(const Shape& shape);
/// Returns the layout of (batch, seqlen, heads, dim) with rows that are aligned to one element only.
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

/// scatter() writes a tensor's elements into the image of an allocation, a word for each; gather() reads them.
void scatter(const reference::Tensor& tensor, const Layout& layout, ElementType type,
             std::vector<std::uint16_t>& image);
reference::Tensor gather(const std::vector<std::uint16_t>& image, const Layout& layout, ElementType type);
inline void scatter(const reference::Tensor& tensor, const Layout& layout, DType dtype,
                    std::vector<std::uint16_t>& image) {
  scatter(tensor, layout, element_of(dtype), image);
}
inline reference::Tensor gather(const std::vector<std::uint16_t>& image, const Layout& layout, DType dtype) {
  return gather(image, layout, element_of(dtype));
}

/// Memory on the current device for a layout's elements, and the address of one of them.
DeviceBuffer buffer_for(const Layout& layout, ElementType type = ElementType::f16);
std::uint16_t* element(const DeviceBuffer& buffer, std::int64_t offset);

/// Uploads a tensor, with NaN around its elements. If elements share memory, `tensor` becomes what the memory
/// holds.
void send(reference::Tensor& tensor, const Layout& layout, ElementType type, DeviceBuffer& buffer);
inline void send(reference::Tensor& tensor, const Layout& layout, DType dtype, DeviceBuffer& buffer) {
  send(tensor, layout, element_of(dtype), buffer);
}

/// Returns the contents of a buffer.
template <class Word>
std::vector<Word> downloaded(const DeviceBuffer& buffer) {
  std::vector<Word> image(buffer.size() / sizeof(Word));
  buffer.download(image.data(), buffer.size());
  return image;
}

/// Returns normally distributed values, rounded to `type`, a DType or an ElementType. The seed determines them.
template <class Type>
reference::Tensor random_tensor(const Shape& shape, Type type, unsigned seed) {
  return random_tensor(shape.batch, shape.heads, shape.rows, shape.dim, type, seed);
}
/// Returns a tensor whose elements are all `value`.
reference::Tensor constant_tensor(const Shape& shape, float value);

/// Returns the bits of each value.
std::vector<std::uint16_t> bits_of(const reference::Tensor& tensor, DType dtype);

struct Layouts {
  Layout q, k, v, out;
};
using MakeLayout = Layout (*)(const Shape&);
/// Returns the same kind of layout for all four tensors of a problem.
Layouts layouts_of(const AttentionProblem& problem, MakeLayout make);

/// The tables of AttentionArgs, on the host. An empty one becomes a null pointer.
struct SequenceTables {
  std::vector<std::int32_t> cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k;
  std::vector<std::int32_t> page_table =
      {};  ///< rows of pages_of_sequence() entries, and one more per sequence
  std::vector<std::int32_t> query_pieces = {};  ///< split, first and second of each sequence
};

/// One attention call with its own memory. NaN lies around the elements of Q, K and V. A pattern lies around
/// the elements of O and LSE, and in their rows of no sequence. O and LSE themselves begin as NaN.
class GuardedCall {
 public:
  explicit GuardedCall(const AttentionProblem& problem);  ///< contiguous (batch, heads, seqlen, dim)
  GuardedCall(const AttentionProblem& problem, const Layouts& layouts);

  AttentionProblem problem;  ///< normalized
  reference::Tensor q, k, v;
  /// One per head, or one per batch entry and head, by the name of the argument.
  std::map<std::string, std::vector<float>> numbers;
  /// With an 8-bit kv_type: the factors as args' strides find them. They begin as different ones, with gaps between them; an
  /// empty list becomes a null pointer.
  std::vector<float> k_descale, v_descale;
  /// With dropout: the seed and offset that the device reads; empty: args have them.
  std::vector<std::uint64_t> dropout_state;
  reference::ScoreFunctions functions;  ///< what the problem's score_text computes
  SequenceTables tables;                ///< with varlen; packed sequences begin without rows
  AttentionArgs
      args;  ///< pointers and strides of the tensors; the default scale, a softcap of 5, dropout of 0.3

  /// Draws other random inputs and uploads them.
  void randomize(unsigned seed);

  /// Uploads the inputs and resets O and LSE. If elements share memory (strides of 0), q, k and v become what
  /// the memory holds.
  void upload();

  std::vector<reference::Sequence> sequences() const;

  /// Returns the scale, and the numbers and tables on the host.
  reference::ScoreRule rule() const;

  /// Checks the numerics contract, with the largest logits if the problem has them, that nothing outside of O
  /// and LSE was written, and that LSE was written only if requested. Reads on the default stream: other
  /// streams must be synchronised first.
  reference::Verdict check() const;

  /// Describes what was written in forbidden places, rows of no sequence included; empty if nothing was.
  std::string stray_writes() const;

  reference::Tensor out() const;
  std::vector<float> lse() const;
  std::vector<float> max_logits() const;
  /// Returns whether O and LSE are bit for bit as upload() left them.
  bool is_untouched() const;

 private:
  /// Calls body(index of the first element in O's memory, index in LSE's) for every row that is written.
  template <class Body>
  void for_each_output(const Body& body) const;
  void make_numbers();
  void make_descales();
  void upload_numbers();
  void upload_descales();
  void upload_tables();
  ElementType kv_element() const { return element_of(problem.kv_type, problem.dtype); }
  std::vector<std::uint16_t> blank_o() const;
  std::vector<std::uint32_t> blank_lse() const;
  std::size_t lse_size() const {
    const Shape& o = layouts_.out.shape;
    return static_cast<std::size_t>(o.batch * o.heads * o.rows);
  }

  Layouts layouts_;
  DeviceBuffer q_, k_, v_, out_, lse_, max_logits_, numbers_, descales_, tables_, dropout_state_, page_table_;
};

/// CHECKs call.check().
void expect_contract(const GuardedCall& call);
/// Runs context.attention() on the default stream, then CHECKs call.check().
void run_and_expect_contract(Context& context, const GuardedCall& call);

}  // namespace fa2::test
