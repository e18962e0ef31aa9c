// The identity of a compiled kernel: what it computes (traits), how (config), and for which GPU (arch).
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <generator/arch.h>

#include <string>

namespace fa2 {

/// The part of a problem that specialises the binary.
struct AttentionTraits {
  DType dtype = DType::f16;
  std::int32_t head_dim = 0;
  std::int32_t head_dim_v = 0;
  MaskKind mask = MaskKind::none;
  RowAlignment row_alignment = RowAlignment::bytes16;

  friend bool operator==(const AttentionTraits&, const AttentionTraits&) = default;
};

AttentionTraits traits_of(const AttentionProblem& problem);

/// "f16_d128_causal_bottom_right", with _v<dim>, _element and _any_order where they differ from the common
/// case.
std::string to_string(const AttentionTraits& traits);

struct KernelSpec {
  AttentionTraits traits;
  KernelConfig config;
  Arch arch;
};

}  // namespace fa2
