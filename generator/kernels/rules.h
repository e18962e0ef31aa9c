// What the rules of all kernels use.
#pragma once

#include <core/arch.h>
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <generator/key_value_format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

/// Returns the columns of a head dim in shared memory and registers: a product takes 16 per instruction.
constexpr int padded_dim(int dim) {
  return (dim + 15) / 16 * 16;
}

/// Returns the bytes of one element of Q, O, P and dS.
constexpr int element_bytes(const AttentionTraits& traits) {
  return bytes_of(element_of(traits.dtype));
}

/// The tensors whose rows tiles hold. A gradient has the rows of its tensor.
enum class Side : std::uint8_t { q, k, v, o };

/// Returns the bytes of one row in shared memory: whole blocks of ldmatrix, which are 32 bytes wide.
constexpr int row_bytes(const AttentionTraits& traits, Side side) {
  const bool is_key_or_value = side == Side::k || side == Side::v;
  const KeyValueFormat format = key_value_format(traits);
  const int element = is_key_or_value ? bytes_of(format.element) : element_bytes(traits);
  const int dim = side == Side::k   ? format.key_elements()
                  : side == Side::q ? traits.head_dim
                                    : traits.head_dim_v;
  return (dim * element + 31) / 32 * 32;
}

/// Returns the bytes of one row of K and one of V, which may be part of it.
constexpr int key_value_row_bytes(const AttentionTraits& traits) {
  return row_bytes(traits, Side::k) + (traits.values_in_keys ? 0 : row_bytes(traits, Side::v));
}

/// Returns the bytes of one row of Q and one of O.
constexpr int query_output_row_bytes(const AttentionTraits& traits) {
  return row_bytes(traits, Side::q) + row_bytes(traits, Side::o);
}

/// Returns whether every kernel that moves rows, without a product, reads the trait (KernelKind::reads).
constexpr bool is_row_trait(std::string_view trait) {
  return trait == "dtype" || trait == "head_dim" || trait == "head_dim_v" || trait == "row_alignment";
}

/// Returns whether a forward kernel reads the trait.
constexpr bool is_forward_trait(std::string_view trait) {
  return trait != "float32_dk_dv" && trait != "float32_dq";
}

/// Returns whether a kernel that reads LSE and stores dK or dV reads the trait.
constexpr bool is_backward_trait(std::string_view trait) {
  return trait != "max_logits" && trait != "float32_out" && trait != "float32_dq";
}
/// Like is_backward_trait(), for kernels that get LSE in base 2 from another one, or read none.
constexpr bool is_backward_trait_without_lse(std::string_view trait) {
  return is_backward_trait(trait) && trait != "lse_base";
}

/// Like is_backward_trait(), for kernels that compute no score.
constexpr bool is_backward_trait_without_scores(std::string_view trait) {
  return is_backward_trait(trait) && trait != "score_text" && trait != "query_pieces";
}

/// Like is_backward_trait(), for kernels that store neither dK nor dV.
constexpr bool is_backward_trait_without_keys(std::string_view trait) {
  return is_backward_trait(trait) && is_forward_trait(trait);
}

/// Returns what a kernel must know of the GPU to convert 8-bit keys and values.
inline std::vector<RenderedConstant> constants_of_e4m3(const KernelSpec& spec) {
  if (key_value_format(spec.traits).element != ElementType::e4m3) return {};
  return {{"converts_e4m3", spec.arch.compute_capability >= 89}};
}

/// More than any GPU holds, and small enough that estimates do not overflow.
inline constexpr int kMostTile = 1024;
inline constexpr int kMostBlocks = 8;  ///< per SM

/// Collects every rule that a config breaks. A text is made only for a broken rule.
class BrokenRules {
 public:
  template <class... Args>
  void expect(bool holds, fmt::format_string<const Args&...> rule, const Args&... args) {
    if (!holds) text_ += (text_.empty() ? "" : "; ") + fmt::format(rule, args...);
  }
  bool empty() const { return text_.empty(); }
  /// Returns "stages = 1, must be 2..8; warps = 6 are no whole warpgroups of 4"
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// The shared memory of `blocks` resident blocks per SM; bytes per block.
struct SharedMemoryNeed {
  const Arch& arch;
  int bytes;
  int blocks;

  constexpr bool fits_block() const { return bytes <= arch.shared_per_block; }
  constexpr bool fits() const {
    return fits_block() && (bytes + arch.shared_reserved) * blocks <= arch.shared_per_sm;
  }
  void check(BrokenRules& rules) const {
    rules.expect(fits_block(), "needs {} bytes of shared memory, {} has {} per block", bytes, arch.name,
                 arch.shared_per_block);
    rules.expect(!fits_block() || fits(),
                 "{} blocks of {} bytes of shared memory do not fit the {} bytes of one SM of {}", blocks,
                 bytes, arch.shared_per_sm, arch.name);
  }
};

}  // namespace fa2
