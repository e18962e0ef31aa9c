// KernelConfig as a value: comparison, text and back. Texts follow from KernelConfig::visit.
#include <core/text.h>
#include <fa2/config.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/kernel_kind.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

std::string known_names() {
  std::string names = "kernel";
  const KernelConfig any;
  KernelConfig::visit(any, [&](std::string_view name, std::int32_t) { names.append(", ").append(name); });
  return names;
}

Violation broken(std::string_view name, std::string_view value, std::string rule) {
  return {"config field " + in_quotes(name), in_quotes(value), std::move(rule)};
}

using Given = std::map<std::string_view, std::string_view>;

/// Enters one "name=value" into `given`.
void parse_item(std::string_view item, Given& given, std::vector<Violation>& violations) {
  const std::size_t equals = std::min(item.find('='), item.size());
  const std::string_view name = item.substr(0, equals);
  const std::string_view value = item.substr(std::min(equals + 1, item.size()));
  if (!given.emplace(name, value).second)
    violations.push_back(broken(name, value, "must be given only once"));
}

/// Takes the field out of `given`. Returns nullopt if it is not there.
std::optional<std::string_view> take(Given& given, std::string_view name) {
  const auto node = given.extract(name);
  return node.empty() ? std::nullopt : std::optional(node.mapped());
}

KernelId parse_kernel(std::optional<std::string_view> word, std::vector<Violation>& violations) {
  if (!word) return KernelConfig{}.kernel;
  if (const auto kernel = enumerator_of<KernelId>(*word)) return *kernel;
  violations.push_back(
      broken("kernel", *word, fmt::format("must be one of the kernels {}", joined_words<KernelId>())));
  return KernelConfig{}.kernel;
}

void parse_number(std::string_view name, std::string_view text, std::int32_t& value,
                  std::vector<Violation>& violations) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end)
    violations.push_back(broken(name, text, "must be a decimal integer of 32 bits, as in tile_m=128"));
}

}  // namespace

KernelConfig default_config(KernelId kernel) {
  return kind_of(kernel).default_config;
}

bool operator==(const KernelConfig& a, const KernelConfig& b) {
  static_assert(std::has_unique_object_representations_v<KernelConfig>, "integers, nothing between them");
  return std::memcmp(&a, &b, sizeof a) == 0;
}

std::string to_string(const KernelConfig& config) {
  std::string text = fmt::format("kernel={}", to_string(config.kernel));
  visit_own(config,
            [&](std::string_view name, std::int32_t value) { text += fmt::format(",{}={}", name, value); });
  return text;
}

KernelConfig parse_config(std::string_view text) {
  Given given;
  std::vector<Violation> violations;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parse_item(text.substr(begin, end - begin), given, violations);
    begin = end + 1;
  }
  KernelConfig config = default_config(parse_kernel(take(given, "kernel"), violations));
  KernelConfig::visit(config, [&](std::string_view name, std::int32_t& value) {
    if (const auto number = take(given, name)) parse_number(name, *number, value, violations);
  });
  for (const auto& [name, value] : given)
    violations.push_back(broken(name, value, fmt::format("must be one of the fields {}", known_names())));
  if (!violations.empty()) throw InvalidRequest(std::move(violations));
  return config;
}

}  // namespace fa2
