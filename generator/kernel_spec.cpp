// Traits of a problem, and their one-word name.
#include <fmt/format.h>
#include <generator/kernel_spec.h>

namespace fa2 {

AttentionTraits traits_of(const AttentionProblem& problem) {
  const AttentionProblem p = problem.normalized();
  return {p.dtype, p.head_dim, p.head_dim_v, p.mask, p.row_alignment};
}

std::string to_string(const AttentionTraits& traits) {
  std::string name = fmt::format("{}_d{}", to_string(traits.dtype), traits.head_dim);
  if (traits.head_dim_v != traits.head_dim) name += fmt::format("_v{}", traits.head_dim_v);
  name += fmt::format("_{}", to_string(traits.mask));
  if (traits.row_alignment == RowAlignment::element) name += "_element";
  if (traits.row_alignment == RowAlignment::bytes16_any_order) name += "_any_order";
  return name;
}

}  // namespace fa2
