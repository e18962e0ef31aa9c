// Rules that hold for every operand of a list, a forward's or a backward's.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <operation/rules/validate.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fa2::test {

/// A list of valid operands, whose pointers lie 16 MB apart.
template <class List>
struct OperandCases {
  List valid;
  std::vector<std::size_t> present;  ///< indices of the operands that the problem has
  /// Returns the violations as "FIELD = VALUE, RULE" lines.
  std::string (*broken)(const List& operands, RowAlignment alignment);

  const Operand& operator[](std::size_t i) const { return valid.list[i]; }

  /// Returns the violations with operand `i` moved to `address`.
  std::string broken_with(std::size_t i, std::uintptr_t address,
                          RowAlignment alignment = RowAlignment::bytes16) const {
    List moved = valid;
    moved.list[i].data = reinterpret_cast<const void*>(address);
    return broken(moved, alignment);
  }

  /// Returns whether the first line is about a field of operand `i`.
  bool names(const std::string& text, std::size_t i) const { return text.starts_with(valid.list[i].name); }
};

template <class List>
void expect_checked_pointers(const OperandCases<List>& cases) {
  for (const std::size_t i : cases.present) {
    const Operand& t = cases[i];
    INFO(t.name);
    CHECK(cases.broken_with(i, 0) ==
          (t.optional ? "" : fmt::format("{} = null, must point to the tensor: it has elements\n", t.name)));
    const std::uintptr_t next = t.address() + static_cast<std::uintptr_t>(t.least_alignment());
    for (const RowAlignment alignment : {RowAlignment::bytes16, RowAlignment::element}) {
      CHECK(cases.names(cases.broken_with(i, next - 1, alignment), i));
      CHECK(cases.names(cases.broken_with(i, ~std::uintptr_t{7}, alignment), i));
    }
    CHECK(cases.broken_with(i, next, RowAlignment::element).empty());
    CHECK(cases.broken_with(i, next).empty() == !(t.has_rows && t.least_alignment() < 16));
  }
}

template <class List>
void expect_no_shared_byte(const OperandCases<List>& cases) {
  for (const std::size_t i : cases.present) {
    for (const std::size_t j : cases.present) {
      if (i == j) continue;
      const Operand &a = cases[i], &b = cases[j];
      INFO(a.name, " and ", b.name);
      const std::string text = cases.broken_with(i, b.address());
      CHECK(text.empty() == !(a.is_written() || b.is_written()));
      const std::size_t alignment = 256, size = (size_in_bytes(b) + alignment - 1) / alignment * alignment;
      CHECK(cases.broken_with(i, b.address() + size).empty());
      if (text.empty()) continue;
      CHECK(text.find('\n') == text.size() - 1);  // reported once
      CHECK((cases.names(text, i) || cases.names(text, j)));
    }
  }
}

template <class List>
void expect_no_overlapping_rows(const OperandCases<List>& cases) {
  for (const std::size_t i : cases.present) {
    List all = cases.valid;
    Operand& t = all.list[i];
    if (!t.strided) continue;
    INFO(t.name);
    t.strides[2] -= 16;
    CHECK(cases.broken(all, RowAlignment::element).empty() == !t.is_written());
  }
}

/// The address that elsewhere_facts() reports on another device.
inline std::uintptr_t elsewhere = 0;

inline PointerFacts elsewhere_facts(const void* pointer) {
  return {PointerKind::device, reinterpret_cast<std::uintptr_t>(pointer) == elsewhere ? 1 : 0};
}

template <class List>
void expect_checked_residency(const OperandCases<List>& cases) {
  for (const std::size_t i : cases.present) {
    INFO(cases[i].name);
    elsewhere = cases[i].address();
    const std::vector<Violation> found = violations_of_residency(cases.valid, 0, elsewhere_facts);
    REQUIRE(found.size() == 1);
    CHECK(found[0].field == cases[i].name);
  }
}

}  // namespace fa2::test
