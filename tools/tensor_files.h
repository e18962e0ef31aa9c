// Q, K and V from .npy files, O and LSE to them.
#pragma once

#include <fa2/args.h>
#include <reference/attention_reference.h>
#include <tools/npy.h>
#include <tools/sequence_tables.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace fa2::tools {

/// The order of dimensions in files: (batch, seqlen, heads, dim) or (batch, heads, seqlen, dim); of packed sequences
/// (total, heads, dim) or (heads, total, dim).
enum class Layout : std::uint8_t { bshd, bhsd };

struct Extents {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  bool packed = false;  ///< without a dimension for the batch, which is 1

  std::vector<std::int64_t> shape(Layout layout) const;
  std::size_t count() const { return static_cast<std::size_t>(batch * rows * heads * dim); }
};

/// A tensor as a file has it, in bits of the problem's dtype.
struct HostTensor {
  Extents extents;
  Layout layout = Layout::bshd;
  bool was_float32 = false;
  std::vector<std::uint16_t> bits;

  /// In logical (batch, head, row, dim) order.
  reference::Tensor logical(DType dtype) const;
};

/// Rounds to `dtype`. @throws Error naming the file: unreadable, or with finite values that `dtype` cannot
/// hold.
HostTensor read_tensor(const std::filesystem::path& path, Layout layout, DType dtype, bool packed = false);

/// Tables of lengths make it varlen. @throws InvalidRequest listing everything in which the shapes do not fit together.
AttentionProblem problem_of(const HostTensor& q, const HostTensor& k, const HostTensor& v, DType dtype,
                            MaskKind mask, const SequenceTables& tables = {});

/// The contiguous output of a problem, without values. As `q` is packed and laid out.
HostTensor output_of(const AttentionProblem& problem, const HostTensor& q);

/// float32 if `as_float32`, else the bits, which must be float16. The caller commits.
void write_tensor(OutputFile& file, const HostTensor& tensor, DType dtype, bool as_float32);

}  // namespace fa2::tools
