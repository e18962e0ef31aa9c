// Reads tables of numbers from the device and checks them on the host, for FA2_CHECK=1 and the interpreter.
#pragma once

#include <fa2/types.h>
#include <fmt/format.h>
#include <operation/rules/violations.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {

/// Returns whether tables can be read: false while `stream` captures, with one warning per process. `device` must be current.
bool can_read_tables(int device, Stream stream);

/// Waits for `stream` and returns `count` numbers of the table; none if `table` is null.
std::vector<std::int32_t> copy_of(const std::int32_t* table, std::int64_t count, int device, Stream stream);

/// Reports the first wrong entry of a table and how many more there are. rule_of(index) must return the rule that an entry breaks,
/// or an empty text.
template <class RuleOf>
void check_table(Violations& found, const std::string& name, std::span<const std::int32_t> table,
                 const RuleOf& rule_of) {
  std::size_t first = 0, broken = 0;
  std::string first_rule;
  for (std::size_t i = 0; i < table.size(); ++i) {
    std::string rule = rule_of(i);
    if (rule.empty() || broken++ > 0) continue;
    first = i;
    first_rule = std::move(rule);
  }
  if (broken == 0) return;
  if (broken > 1)
    first_rule += fmt::format("; {} more {}", broken - 1, broken == 2 ? "is wrong" : "are wrong");
  found.push_back(
      {fmt::format("{}[{}]", name, first), fmt::format("{}", table[first]), std::move(first_rule)});
}

}  // namespace fa2
