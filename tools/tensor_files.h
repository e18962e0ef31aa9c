// Tensors in .npy files: inputs Q, K and V, and outputs.
#pragma once

#include <core/element_type.h>
#include <fa2/args.h>
#include <reference/attention_reference.h>
#include <tools/npy.h>
#include <tools/sequence_tables.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace fa2::tools {

/// Order of dimensions in files: (batch, seqlen, heads, dim) or (batch, heads, seqlen, dim). Packed
/// sequences: (total, heads, dim) or (heads, total, dim).
enum class Layout : std::uint8_t { bshd, bhsd };

struct Extents {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  bool packed = false;  ///< without a batch dimension; `batch` is 1

  std::vector<std::int64_t> shape(Layout layout) const;
  std::size_t count() const { return static_cast<std::size_t>(batch * rows * heads * dim); }
};

/// A tensor in a file's order.
struct HostTensor {
  Extents extents;
  Layout layout = Layout::bshd;
  ElementType type = ElementType::f16;
  bool was_float32 = false;
  std::vector<std::uint16_t> bits;  ///< of each element; e4m3 has the lower half
  std::vector<float> floats = {};   ///< in place of `bits`, of outputs that are not rounded

  /// Makes it an output that is not rounded.
  void hold_floats() { floats.resize(extents.count()), bits.clear(); }
  /// Returns the elements of an output.
  std::span<std::byte> memory() {
    return floats.empty() ? std::as_writable_bytes(std::span(bits))
                          : std::as_writable_bytes(std::span(floats));
  }

  /// Returns it in logical (batch, head, row, dim) order.
  reference::Tensor logical() const;
};

/// Reads a tensor, divides it by `scale` and rounds it to `type`. @throws Error that names the file: unreadable, or with finite
/// values that float16 or bfloat16 cannot hold.
HostTensor read_tensor(const std::filesystem::path& path, Layout layout, ElementType type,
                       bool packed = false, float scale = 1);

/// Returns the problem of these tensors; with tables, a varlen problem. @throws InvalidRequest listing every
/// mismatch of shapes.
AttentionProblem problem_of(const HostTensor& q, const HostTensor& k, const HostTensor& v, DType dtype,
                            MaskKind mask, const SequenceTables& tables = {});

/// Returns a contiguous output without values, packed and laid out like `q`.
HostTensor output_of(const AttentionProblem& problem, const HostTensor& q);

/// Writes float32 if `as_float32` or if it holds floats, else the bits, which must be float16. The caller must commit.
void write_tensor(OutputFile& file, const HostTensor& tensor, bool as_float32);

}  // namespace fa2::tools
