// Checks arguments. The valid path only computes and compares; texts are made after a rule was broken.
#include <fmt/format.h>
#include <operation/operands/overlap.h>
#include <operation/rules/check_captures.h>
#include <operation/rules/validate.h>
#include <operation/rules/violations.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace fa2 {
namespace {

std::string text_of(const ByteRange& range) {
  return fmt::format("[{:#x}, {:#x})", static_cast<std::uint64_t>(range.begin),
                     static_cast<std::uint64_t>(range.end));
}

/// Returns all used strides in bytes, or'ed together. The result is a multiple of 2^n if and only if each of them is.
std::uint64_t used_stride_bits(const Operand& t) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (t.extents[i] > 1) bits |= static_cast<std::uint64_t>(t.strides[i]);
  }
  return bits * static_cast<std::uint64_t>(bytes_of(t.element));
}

bool has_16_byte_rows(const Operand& t) {
  return ((t.address() | used_stride_bits(t)) & 15) == 0;
}

bool has_ascending_strides(const Operand& t) {
  bool ascending = true;
  for (std::size_t i = 0; i < 3; ++i) ascending &= t.extents[i] <= 1 || t.strides[i] > 0;
  return ascending;
}

constexpr const char* kDimensions[] = {"batch", "head", "row"};

std::string address_text(const Operand& t) {
  return fmt::format("{:#x}", t.address());
}

void check_ascending_strides(Violations& found, const Operand& t) {
  if (has_ascending_strides(t)) return;
  for (std::size_t i = 0; i < 3; ++i) {
    if (t.extents[i] <= 1 || t.strides[i] > 0) continue;
    found.push_back({fmt::format("{}_strides.{}", t.name, kDimensions[i]), fmt::format("{}", t.strides[i]),
                     "must be positive for RowAlignment::bytes16; make the plan with "
                     "RowAlignment::bytes16_any_order"});
  }
}

void check_16_byte_rows(Violations& found, const Operand& t) {
  if (has_16_byte_rows(t)) return;
  const char* const why = t.least_alignment() == 16
                              ? ": rows of 8-bit elements are read in pieces of 16 bytes"
                              : " for RowAlignment::bytes16; make the plan with RowAlignment::element";
  if (t.address() % 16 != 0) {
    found.push_back(
        {std::string(t.name), address_text(t), fmt::format("must be a multiple of 16 bytes{}", why)});
  }
  const int elements = 16 / bytes_of(t.element);
  for (std::size_t i = 0; i < 3; ++i) {
    if (t.extents[i] <= 1 || t.strides[i] % elements == 0) continue;
    found.push_back({fmt::format("{}_strides.{}", t.name, kDimensions[i]), fmt::format("{}", t.strides[i]),
                     fmt::format("must be a multiple of {} elements{}", elements, why)});
  }
}

void check_element_alignment(Violations& found, const Operand& t) {
  const unsigned bytes = static_cast<unsigned>(t.least_alignment());
  if ((t.address() & (bytes - 1)) == 0) return;
  const char* const unit = t.alignment != 0                ? ""
                           : t.element == ElementType::f32 ? ", one float"
                                                           : ", one element";
  found.push_back(
      {std::string(t.name), address_text(t), fmt::format("must be a multiple of {} bytes{}", bytes, unit)});
}

void check_alignment(Violations& found, const Operand& t, RowAlignment alignment) {
  if (!t.has_rows) return check_element_alignment(found, t);
  if (alignment == RowAlignment::element)
    return t.least_alignment() == 16 ? check_16_byte_rows(found, t) : check_element_alignment(found, t);
  if (alignment == RowAlignment::bytes16) check_ascending_strides(found, t);
  check_16_byte_rows(found, t);
}

Violation out_of_address_space(const Operand& t) {
  if (!t.strided)
    return {std::string(t.name), address_text(t),
            "must leave room for the tensor in the 64-bit address space"};
  return {
      fmt::format("{}_strides", t.name),
      fmt::format("batch {}, head {}, row {}", t.strides[0], t.strides[1], t.strides[2]),
      fmt::format("must keep the tensor inside the 64-bit address space, starting from {}", address_text(t))};
}

/// Checks one operand by itself. Returns its bytes; an empty range if it has none or leaves the address space.
ByteRange check_operand(Violations& found, const Operand& t, RowAlignment alignment) {
  if (t.is_absent()) return {};
  if (t.data == nullptr) {
    found.push_back({std::string(t.name), "null", "must point to the tensor: it has elements"});
    return {};
  }
  check_alignment(found, t, alignment);
  const ByteRange range = range_of(t);
  if (range.in_address_space()) return range;
  found.push_back(out_of_address_space(t));
  return {};
}

/// Checks that rows of a strided operand do not overlap.
void check_written_rows(Violations& found, const Operand& t) {
  const RowOverlap overlap = overlapping_rows(t);
  if (overlap.broken < 0) return;
  const std::size_t i = static_cast<std::size_t>(overlap.broken);
  found.push_back(
      {fmt::format("{}_strides.{}", t.name, kDimensions[i]), fmt::format("{}", t.strides[i]),
       fmt::format(
           "must be at least {} in magnitude: rows of {} must not overlap (strides are compared in order of "
           "magnitude, each with the elements that the smaller ones cover)",
           overlap.least, t.name)});
}

using Ranges = std::span<ByteRange>;

/// Compares each written operand with all inputs, and with the written operands before it in the list.
void check_overlaps(Violations& found, OperandList operands, Ranges ranges) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& written = operands.data()[i];
    if (!written.is_written() || ranges[i].begin == ranges[i].end) continue;
    for (std::size_t j = 0; j < operands.size(); ++j) {
      const Operand& other = operands.data()[j];
      if (j == i || (j > i && other.is_written()) || !ranges[i].touches(ranges[j])) continue;
      if (written.strided && other.strided && disjoint_columns(written, other)) continue;
      found.push_back({std::string(written.name), text_of(ranges[i]),
                       fmt::format("must not overlap {} at {}", other.name, text_of(ranges[j]))});
    }
  }
}

/// Checks each operand by itself, written rows, and overlaps. Writes the bytes of each operand to `ranges`, which must be as long.
void check_operands(Violations& found, OperandList operands, RowAlignment alignment, Ranges ranges) {
  for (std::size_t i = 0; i < operands.size(); ++i)
    ranges[i] = check_operand(found, operands.data()[i], alignment);
  for (const Operand& operand : operands) {
    if (operand.is_written() && operand.strided && operand.data != nullptr && !operand.is_absent())
      check_written_rows(found, operand);
  }
  check_overlaps(found, operands, ranges);
}

/// Like the function above, for operands of attention.
void check_operands(Violations& found, OperandList operands, RowAlignment alignment) {
  std::array<ByteRange, kBackwardOperandCount> ranges;
  check_operands(found, operands, alignment, ranges);
}

bool has_elements(const Operand& gradient) {
  return gradient.extents[0] > 0 && gradient.extents[2] > 0;
}

/// Checks that a gradient is given if and only if the plan computes it.
void check_wanted(Violations& found, const Operand& gradient, bool is_wanted) {
  if (is_wanted == (gradient.data != nullptr) || (is_wanted && !has_elements(gradient))) return;
  found.push_back({std::string(gradient.name), is_wanted ? "null" : "given",
                   is_wanted
                       ? fmt::format("must point to the tensor: the plan computes it; or make it without, by "
                                     "Gradients::{}",
                                     gradient.name)
                       : fmt::format("must be null: the plan does not compute it; make it with Gradients::{}",
                                     gradient.name)});
}

/// Checks that at least one gradient is wanted, unless none has an element.
void check_any_wanted(Violations& found, const Gradients& gradients, OperandList operands) {
  const Operand &dq = operands[Role::dq], &dk = operands[Role::dk], &dv = operands[Role::dv];
  const bool is_any_given = dq.data != nullptr || dk.data != nullptr || dv.data != nullptr;
  if (is_any_wanted(gradients) || is_any_given || !(has_elements(dq) || has_elements(dk))) return;
  found.push_back({"dq, dk, dv, d_sinks and d_captures", "null", "must not all be: none is asked for"});
}

/// Checks that each gradient is given if and only if the plan computes it. One that the problem lacks must be null.
void check_gradients(Violations& found, const AttentionProblem& problem, const Gradients& gradients,
                     OperandList operands) {
  each_operand_gradient(gradients, [&](auto index, bool is_wanted) {
    constexpr const RowText& row = kCStruct<BackwardArgs>.members[index].text;
    const Operand& gradient = operands[Role{operand_index(row.name)}];
    if (is_used<BackwardArgs, index>(problem)) return check_wanted(found, gradient, is_wanted);
    if (gradient.data != nullptr)
      found.push_back(
          {row.name, "given", fmt::format("must be null, or the problem's {} true", row.used_if)});
  });
}

void check_scalars(Violations& found, const AttentionArgs& args) {
  check_enum(found, "empty_row_lse", args.empty_row_lse);
  if (args.softmax_scale && !std::isfinite(*args.softmax_scale)) {
    found.push_back({"softmax_scale", fmt::format("{}", *args.softmax_scale), "must be finite"});
  }
}

void check_number(Violations& found, const char* variant, const char* name, bool is_used, float value) {
  if (is_used ? std::isfinite(value) && value > 0 : value == 0) return;
  found.push_back({name, fmt::format("{}", value),
                   is_used ? fmt::format("must be finite and above 0: the problem has a {}", variant)
                           : fmt::format("must be 0, or the problem's {} true", variant)});
}

void check_number(Violations& found, const char* variant, const char* name, bool is_used,
                  const float* value) {
  if (!is_used && value != nullptr)
    found.push_back({name, "given", fmt::format("must be null, or the problem's {} true", variant)});
}

/// Rejects numbers of variants that are wrong, or that the problem would ignore. The operand checks find missing pointers.
void check_variants(Violations& found, const AttentionProblem& problem, const AttentionArgs& args) {
  visit_numbers([&](const char* variant, const char* name, bool is_used, const auto& value,
                    const auto&...) { check_number(found, variant, name, is_used, value); },
                problem, args);
}

/// Returns how a rule names the values of a problem's field with which is_set(): "true", "above 0", or "not same".
template <class Value>
std::string set_value() {
  if constexpr (std::is_enum_v<Value>) {
    return fmt::format("not {}", kWords<Value>[0].word);
  } else {
    return std::is_same_v<Value, bool> ? "true" : "above 0";
  }
}

/// Rejects tensors that the problem would ignore. The operand checks find missing ones. Members of members have their own checks.
void check_tables(Violations& found, const AttentionProblem& p, const AttentionArgs& args) {
  each_index<AttentionArgs>([&](auto index) {
    constexpr const auto& row = row_at<index>(kRowsOf<AttentionArgs>);
    constexpr const Member& member = kCStruct<AttentionArgs>.members[index];
    constexpr bool is_tensor = member.is_pointer &&
                               (member.element != ElementType::f32 || member.type == CType::tensor) &&
                               std::string_view(row.text.name).find('.') == std::string_view::npos;
    if constexpr (is_tensor && *row.text.used_if != 0) {
      if (args.*row.member == nullptr || is_used<AttentionArgs, index>(p)) return;
      constexpr std::size_t field = row_index<AttentionProblem>(row.text.used_if);
      using Value = MemberType<AttentionProblem,
                               std::remove_cvref_t<decltype(row_at<field>(kRowsOf<AttentionProblem>))>>;
      found.push_back(
          {row.text.name, "given",
           fmt::format("must be null, or the problem's {} {}", row.text.used_if, set_value<Value>())});
    }
  });
  const std::int64_t stride = args.page_table_stride;
  if (stride < 0 || stride > std::numeric_limits<std::int32_t>::max() || (stride > 0 && p.page_size == 0)) {
    found.push_back(
        {"page_table_stride", fmt::format("{}", stride),
         p.page_size > 0 ? "must be in 0..2147483647" : "must be 0, or the problem's page_size above 0"});
  }
}

/// Checks that V is K where the problem says so.
void check_values_in_keys(Violations& found, const AttentionProblem& problem, OperandList operands) {
  const Operand& k = operands[Role::k];
  const Operand& v = operands[Role::v];
  if (!problem.values_in_keys || v.is_absent()) return;
  bool is_same = v.data == k.data;
  for (std::size_t i = 0; i < k.strides.size(); ++i)
    is_same &= k.extents[i] <= 1 || v.strides[i] == k.strides[i];
  if (!is_same)
    found.push_back({"v", address_text(v),
                     fmt::format("must be k, at {}, with its strides, or the problem's values_in_keys false",
                                 address_text(k))});
}

bool computes_nothing(const AttentionProblem& problem) {
  return problem.batch == 0 || problem.seqlen_q == 0;
}

}  // namespace

void check_dropout(Violations& found, const AttentionProblem& problem, const Dropout& dropout) {
  const bool is_probability = dropout.probability >= 0 && dropout.probability < 1;
  if (problem.dropout && !is_probability)
    found.push_back({"dropout.probability", fmt::format("{}", dropout.probability),
                     "must be at least 0 and less than 1: of being dropped"});
  if (problem.dropout && dropout.state != nullptr && (dropout.seed != 0 || dropout.offset != 0))
    found.push_back(
        {"dropout.state", "given", "must be null, or seed and offset 0: they are what it points to"});
  const bool says_something =
      dropout.probability != 0 || dropout.seed != 0 || dropout.offset != 0 || dropout.state != nullptr;
  if (!problem.dropout && says_something)
    found.push_back({"dropout", "given", "must be as it is by default, or the problem's dropout true"});
}

std::vector<Violation> violations_of(const PlannedProblem& problem, const AttentionArgs& args) {
  return violations_of(problem, args, operands_of(problem, args));
}

std::vector<Violation> violations_of(const PlannedProblem& problem, const AttentionArgs& args,
                                     OperandList operands) {
  Violations found;
  check_scalars(found, args);
  check_variants(found, problem, args);
  check_dropout(found, problem, args.dropout);
  check_query_pieces(found, problem, args.query_pieces);
  if (computes_nothing(problem)) return found;
  check_tables(found, problem, args);
  check_values_in_keys(found, problem, operands);
  if (!problem.max_logits && args.max_logits != nullptr)
    found.push_back({"max_logits", "given", "must be null, or the problem's max_logits true"});
  check_operands(found, operands, problem.row_alignment);
  check_captures(found, problem, args, operands);
  return found;
}

std::vector<Violation> violations_of(const PlannedProblem& problem, const Gradients& gradients,
                                     const BackwardArgs& args, OperandList operands) {
  Violations found;
  check_scalars(found, args.forward);
  check_variants(found, problem, args.forward);
  check_dropout(found, problem, args.forward.dropout);
  check_query_pieces(found, problem, args.forward.query_pieces);
  if (problem.batch == 0) return found;
  check_tables(found, problem, args.forward);
  check_any_wanted(found, gradients, operands);
  check_gradients(found, problem, gradients, operands);
  check_operands(found, operands, problem.row_alignment);
  check_captures(found, problem, gradients, args, operands);
  return found;
}

std::vector<Violation> violations_of_operands(OperandList operands) {
  Violations found;
  std::vector<ByteRange> ranges(operands.size());
  check_operands(found, operands, RowAlignment::element, ranges);
  return found;
}

std::vector<Violation> violations_of_call(const AttentionProblem& problem, const AttentionArgs& args) {
  Violations found = violations_of(problem);
  if (has_shapes(problem.normalized())) {
    const PlannedProblem promising_nothing{problem, {RowAlignment::element}};
    std::ranges::move(violations_of(promising_nothing, args), std::back_inserter(found));
  } else {
    check_scalars(found, args);
  }
  return found;
}

void check_residency(Violations& found, std::string_view name, const void* data, int device,
                     PointerFacts (*facts_of)(const void*)) {
  const PointerFacts facts = facts_of(data);
  if (facts.kind == PointerKind::unregistered) {
    found.push_back({std::string(name), fmt::format("{}", data),
                     "must be memory that the GPU can reach: it is ordinary host memory, or was freed"});
  } else if (facts.kind == PointerKind::device && facts.device != device) {
    found.push_back({std::string(name), fmt::format("{} on device {}", data, facts.device),
                     fmt::format("must be on device {}, where this call runs", device)});
  }
}

std::vector<Violation> violations_of_residency(OperandList operands, int device,
                                               PointerFacts (*facts_of)(const void*)) {
  Violations found;
  for (const Operand& t : operands)
    if (t.data != nullptr && !t.is_absent()) check_residency(found, t.name, t.data, device, facts_of);
  return found;
}

void require_usable(std::vector<Violation> found, OperandList operands, int device) {
  if (device != kInterpreterDevice) {
    std::vector<Violation> elsewhere = violations_of_residency(operands, device);
    std::ranges::move(elsewhere, std::back_inserter(found));
  }
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

PlanOptions options_kept_by(const AttentionProblem& problem, OperandList operands) {
  if (problem.batch == 0) return {};
  bool aligned = true, ascending = true;
  for (const Operand& t : operands) {
    if (!t.has_rows || t.is_absent()) continue;
    aligned &= has_16_byte_rows(t);
    ascending &= has_ascending_strides(t);
  }
  if (!aligned) return {RowAlignment::element};
  return {ascending ? RowAlignment::bytes16 : RowAlignment::bytes16_any_order};
}

void require_valid(const PlannedProblem& problem, const AttentionArgs& args) {
  Violations found = violations_of(problem, args);
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

void require_valid_problem_of(const AttentionProblem& problem, const AttentionArgs& args) {
  if (!violations_of(problem).empty()) throw InvalidRequest(violations_of_call(problem, args));
}

}  // namespace fa2
