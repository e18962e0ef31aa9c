// The rules of problems and arguments. The valid path computes and compares; every text is made in a cold
// branch.
#include <api/overlap.h>
#include <api/validate.h>
#include <fmt/format.h>
#include <generator/arch.h>
#include <generator/text.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace fa2 {
namespace {

using Violations = std::vector<Violation>;

constexpr std::int64_t kLongestSequence = (std::int64_t{1} << 31) - 1024;
constexpr std::int64_t kLargestGrid = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kSmallestTile = 16;

template <class Enum>
void check_enum(Violations& found, const char* field, Enum value, Enum last, const char* rule) {
  if (value > last) found.push_back({field, fmt::format("{}", static_cast<int>(value)), rule});
}

void check_number(Violations& found, const char* field, std::int64_t value, bool holds, const char* rule) {
  if (!holds) found.push_back({field, fmt::format("{}", value), rule});
}

bool is_head_dim(std::int32_t dim) {
  return dim >= 8 && dim <= 256 && dim % 8 == 0;
}
bool is_seqlen(std::int64_t length) {
  return length >= 0 && length <= kLongestSequence;
}

void check_grid(Violations& found, const AttentionProblem& p) {
  if (p.batch < 0 || p.heads_q < 1 || !is_seqlen(p.seqlen_q)) return;
  const std::int64_t tiles = (p.seqlen_q + kSmallestTile - 1) / kSmallestTile;
  std::int64_t heads = 0, blocks = 0;
  const bool overflows =
      p.batch != 0 && tiles != 0 &&
      (__builtin_mul_overflow(p.batch, p.heads_q, &heads) || __builtin_mul_overflow(heads, tiles, &blocks));
  if (!overflows && blocks <= kLargestGrid) return;
  found.push_back({"batch * heads_q * ceil(seqlen_q / 16)",
                   fmt::format("{} * {} * {}", p.batch, p.heads_q, tiles),
                   "must be at most 2147483647, the largest grid of one launch; split the batch"});
}

std::string text_of(const ByteRange& range) {
  return fmt::format("[{:#x}, {:#x})", static_cast<std::uint64_t>(range.begin),
                     static_cast<std::uint64_t>(range.end));
}

/// The strides that matter, in bytes, or'ed together: a multiple of 2^n iff all of them are.
std::uint64_t used_stride_bits(const TensorView& view) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (view.extents[i] > 1) bits |= static_cast<std::uint64_t>(view.strides[i]) << 1;
  }
  return bits;
}

bool has_16_byte_rows(const TensorView& view) {
  return ((view.address | used_stride_bits(view)) & 15) == 0;
}

bool has_ascending_strides(const TensorView& view) {
  bool ascending = true;
  for (std::size_t i = 0; i < 3; ++i) ascending &= view.extents[i] <= 1 || view.strides[i] > 0;
  return ascending;
}

constexpr const char* kDimensions[] = {"batch", "head", "row"};

void check_ascending_strides(Violations& found, const TensorView& view) {
  if (has_ascending_strides(view)) return;
  for (std::size_t i = 0; i < 3; ++i) {
    if (view.extents[i] <= 1 || view.strides[i] > 0) continue;
    found.push_back({fmt::format("{}_strides.{}", view.name, kDimensions[i]),
                     fmt::format("{}", view.strides[i]),
                     "must be positive for RowAlignment::bytes16; make the plan with "
                     "RowAlignment::bytes16_any_order"});
  }
}

void check_16_byte_rows(Violations& found, const TensorView& view) {
  if (has_16_byte_rows(view)) return;
  if (view.address % 16 != 0) {
    found.push_back({std::string(view.name), fmt::format("{:#x}", view.address),
                     "must be a multiple of 16 bytes for RowAlignment::bytes16; make the plan with "
                     "RowAlignment::element"});
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (view.extents[i] <= 1 || view.strides[i] % 8 == 0) continue;
    found.push_back({fmt::format("{}_strides.{}", view.name, kDimensions[i]),
                     fmt::format("{}", view.strides[i]),
                     "must be a multiple of 8 elements for RowAlignment::bytes16; make the plan with "
                     "RowAlignment::element"});
  }
}

/// Everything about one tensor by itself. Its bytes; the empty range if it has none or cannot be placed.
ByteRange check_tensor(Violations& found, const TensorView& view, RowAlignment alignment) {
  if (view.empty()) return {};
  if (view.address == 0) {
    found.push_back({std::string(view.name), "null", "must point to the tensor: it has elements"});
    return {};
  }
  if (alignment == RowAlignment::bytes16) check_ascending_strides(found, view);
  if (alignment != RowAlignment::element) {
    check_16_byte_rows(found, view);
  } else if (view.address % 2 != 0) {
    found.push_back({std::string(view.name), fmt::format("{:#x}", view.address),
                     "must be a multiple of 2 bytes, one element"});
  }
  const ByteRange range = range_of(view);
  if (range.in_address_space()) return range;
  found.push_back(
      {fmt::format("{}_strides", view.name),
       fmt::format("batch {}, head {}, row {}", view.strides[0], view.strides[1], view.strides[2]),
       fmt::format("must keep the tensor inside the 64-bit address space, starting from {:#x}",
                   view.address)});
  return {};
}

ByteRange check_lse(Violations& found, const AttentionProblem& p, const float* lse) {
  if (lse == nullptr) return {};
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(lse);
  if (address % 4 != 0)
    found.push_back({"lse", fmt::format("{:#x}", address), "must be a multiple of 4 bytes, one float"});
  const ByteRange range{Int128{address}, Int128{address} + Int128{p.batch} * p.heads_q * p.seqlen_q * 4};
  if (range.in_address_space()) return range;
  found.push_back(
      {"lse", fmt::format("{:#x}", address), "must leave room for the tensor in the 64-bit address space"});
  return {};
}

void check_output_rows(Violations& found, const TensorView& o) {
  const RowOverlap overlap = overlapping_rows(o);
  if (overlap.broken < 0) return;
  const std::size_t i = static_cast<std::size_t>(overlap.broken);
  found.push_back(
      {fmt::format("o_strides.{}", kDimensions[i]), fmt::format("{}", o.strides[i]),
       fmt::format(
           "must be at least {} in magnitude: rows of o must not overlap (strides are compared in order of "
           "magnitude, each with the elements that the smaller ones cover)",
           overlap.least)});
}

void check_ranges(Violations& found, std::string_view output, const ByteRange& a, std::string_view other,
                  const ByteRange& b) {
  if (!a.touches(b)) return;
  found.push_back(
      {std::string(output), text_of(a), fmt::format("must not overlap {} at {}", other, text_of(b))});
}

void check_scalars(Violations& found, const AttentionArgs& args) {
  check_enum(found, "empty_row_lse", args.empty_row_lse, EmptyRowLse::negative_infinity,
             "must be positive_infinity (0) or negative_infinity (1)");
  if (args.softmax_scale && !std::isfinite(*args.softmax_scale)) {
    found.push_back({"softmax_scale", fmt::format("{}", *args.softmax_scale), "must be finite"});
  }
}

bool computes_nothing(const AttentionProblem& problem) {
  return problem.batch == 0 || problem.seqlen_q == 0;
}

/// Whether 128 bits hold what the rules of arguments compute, though the problem is not valid.
bool has_shapes(const AttentionProblem& normalized) {
  const AttentionProblem& p = normalized;
  const auto is_extent = [](std::int64_t n) { return n >= 0 && n <= std::int64_t{1} << 32; };
  return p.head_dim > 0 && p.head_dim_v > 0 && is_extent(p.batch) && is_extent(p.heads_q) &&
         is_extent(p.heads_kv) && is_extent(p.seqlen_q) && is_extent(p.seqlen_k);
}

}  // namespace

std::vector<Violation> violations_of(const AttentionProblem& problem) {
  const AttentionProblem p = problem.normalized();
  Violations found;
  check_enum(found, "dtype", p.dtype, DType::bf16, "must be f16 (0) or bf16 (1)");
  check_enum(found, "mask", p.mask, MaskKind::causal_top_left,
             "must be none (0), causal_bottom_right (1) or causal_top_left (2)");
  check_enum(found, "row_alignment", p.row_alignment, RowAlignment::bytes16_any_order,
             "must be bytes16 (0), element (1) or bytes16_any_order (2)");
  check_number(found, "head_dim", p.head_dim, is_head_dim(p.head_dim), "must be a multiple of 8 in 8..256");
  const bool own_dim_v = problem.head_dim_v != 0;  // else it is head_dim, already reported
  check_number(found, "head_dim_v", p.head_dim_v, !own_dim_v || is_head_dim(p.head_dim_v),
               "must be a multiple of 8 in 8..256, or 0 for head_dim");
  check_number(found, "batch", p.batch, p.batch >= 0, "must be at least 0");
  check_number(found, "heads_q", p.heads_q, p.heads_q >= 1, "must be at least 1");
  const bool own_heads_kv = problem.heads_kv != 0;
  const bool divides = p.heads_kv >= 1 && (p.heads_q < 1 || p.heads_q % p.heads_kv == 0);
  if (own_heads_kv && !divides) {
    found.push_back(
        {"heads_kv", fmt::format("{}", p.heads_kv),
         fmt::format("must be at least 1 and divide heads_q = {}, or be 0 for heads_q", p.heads_q)});
  }
  check_number(found, "seqlen_q", p.seqlen_q, is_seqlen(p.seqlen_q), "must be in 0..2147482624");
  check_number(found, "seqlen_k", p.seqlen_k, is_seqlen(p.seqlen_k), "must be in 0..2147482624");
  check_grid(found, p);
  return found;
}

std::vector<Violation> violations_of(const AttentionProblem& problem, const AttentionArgs& args) {
  Violations found;
  check_scalars(found, args);
  if (computes_nothing(problem)) return found;

  const std::array<TensorView, 4> views = views_of(problem, args);
  std::array<ByteRange, 4> ranges;
  for (std::size_t i = 0; i < views.size(); ++i)
    ranges[i] = check_tensor(found, views[i], problem.row_alignment);
  const ByteRange lse = check_lse(found, problem, args.lse);
  if (args.o != nullptr) check_output_rows(found, views[kO]);

  for (const TensorIndex input : {kQ, kK, kV}) {
    if (!ranges[kO].touches(ranges[input]) || disjoint_columns(views[kO], views[input])) continue;
    check_ranges(found, "o", ranges[kO], views[input].name, ranges[input]);
  }
  for (std::size_t i = 0; i < views.size(); ++i) check_ranges(found, "lse", lse, views[i].name, ranges[i]);
  return found;
}

std::vector<Violation> violations_of_call(const AttentionProblem& problem, const AttentionArgs& args) {
  Violations found = violations_of(problem);
  if (has_shapes(problem.normalized())) {
    std::ranges::move(violations_of(problem, args), std::back_inserter(found));
  } else {
    check_scalars(found, args);
  }
  return found;
}

std::vector<Violation> violations_of(const std::vector<AttentionProblem>& problems,
                                     const std::vector<std::string>& archs) {
  Violations found;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    for (Violation violation : violations_of(problems[i])) {
      violation.field = fmt::format("problems[{}].{}", i, violation.field);
      found.push_back(std::move(violation));
    }
  }
  for (std::size_t i = 0; i < archs.size(); ++i) {
    if (find_arch(archs[i]) != nullptr) continue;
    found.push_back(
        {fmt::format("archs[{}]", i), in_quotes(archs[i]), "must be one of " + known_arch_names()});
  }
  return found;
}

std::vector<Violation> violations_of_residency(const AttentionArgs& args, int device,
                                               PointerFacts (*facts_of)(const void*)) {
  Violations found;
  const std::pair<const char*, const void*> pointers[] = {
      {"q", args.q}, {"k", args.k}, {"v", args.v}, {"o", args.o}, {"lse", args.lse}};
  for (const auto& [name, pointer] : pointers) {
    if (pointer == nullptr) continue;
    const PointerFacts facts = facts_of(pointer);
    if (facts.kind == PointerKind::unregistered) {
      found.push_back({name, fmt::format("{}", pointer),
                       "must be memory that the GPU can reach: it is ordinary host memory, or was freed"});
    } else if (facts.kind == PointerKind::device && facts.device != device) {
      found.push_back({name, fmt::format("{} on device {}", pointer, facts.device),
                       fmt::format("must be on device {}, where this call runs", device)});
    }
  }
  return found;
}

RowAlignment row_alignment_of(const AttentionProblem& problem, const AttentionArgs& args) {
  if (computes_nothing(problem)) return RowAlignment::bytes16;
  bool aligned = true, ascending = true;
  for (const TensorView& view : views_of(problem, args)) {
    if (view.empty()) continue;
    aligned &= has_16_byte_rows(view);
    ascending &= has_ascending_strides(view);
  }
  if (!aligned) return RowAlignment::element;
  return ascending ? RowAlignment::bytes16 : RowAlignment::bytes16_any_order;
}

void require_valid(const AttentionProblem& problem) {
  Violations found = violations_of(problem);
  if (!found.empty()) throw InvalidProblem(std::move(found));
}

void require_valid(const AttentionProblem& problem, const AttentionArgs& args) {
  Violations found = violations_of(problem, args);
  if (!found.empty()) throw InvalidProblem(std::move(found));
}

void require_valid_problem_of(const AttentionProblem& problem, const AttentionArgs& args) {
  if (!violations_of(problem).empty()) throw InvalidProblem(violations_of_call(problem, args));
}

}  // namespace fa2
