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
#include <type_traits>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

std::string known_names() {
  std::string names;
  const KernelConfig any;
  KernelConfig::visit(any, [&](std::string_view name, std::int32_t) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  });
  return names;
}

Violation broken(std::string_view name, std::string_view value, std::string rule) {
  return {"config field " + in_quotes(name), in_quotes(value), std::move(rule)};
}

using Given = std::map<std::string_view, std::int32_t>;

/// Enters one "name=value" into `given`.
void parse_item(std::string_view item, Given& given, std::vector<Violation>& violations) {
  const std::size_t equals = std::min(item.find('='), item.size());
  const std::string_view name = item.substr(0, equals);
  const std::string_view number = item.substr(std::min(equals + 1, item.size()));

  std::int32_t value = 0;
  const char* end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, value);
  if (error != std::errc() || stop != end) {
    violations.push_back(broken(name, number, "must be a decimal integer of 32 bits, as in tile_m=128"));
  }
  if (!given.emplace(name, value).second)
    violations.push_back(broken(name, number, "must be given only once"));
}

}  // namespace

KernelConfig default_config(std::int32_t mainloop, std::int32_t pass) {
  const KernelConfig fallback{.mainloop = mainloop, .pass = pass};
  const KernelKind* kind = find_kind(fallback);
  return kind == nullptr ? fallback : kind->default_config;
}

bool operator==(const KernelConfig& a, const KernelConfig& b) {
  static_assert(std::has_unique_object_representations_v<KernelConfig>, "integers, nothing between them");
  return std::memcmp(&a, &b, sizeof a) == 0;
}

std::string to_string(const KernelConfig& config) {
  std::string text;
  visit_own(config, [&](std::string_view name, std::int32_t value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  });
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

  const auto number = [&](std::string_view name, std::int32_t otherwise) {
    const auto found = given.find(name);
    return found == given.end() ? otherwise : found->second;
  };
  KernelConfig config =
      default_config(number("mainloop", KernelConfig{}.mainloop), number("pass", KernelConfig{}.pass));
  KernelConfig::visit(config, [&](std::string_view name, std::int32_t& value) {
    const auto found = given.find(name);
    if (found == given.end()) return;
    value = found->second;
    given.erase(found);
  });
  for (const auto& [name, value] : given) {
    violations.push_back(broken(name, std::to_string(value), "must be one of the tunables " + known_names()));
  }
  if (!violations.empty()) throw InvalidRequest(std::move(violations));
  return config;
}

}  // namespace fa2
