// An explanation for people.
#include <fmt/format.h>
#include <tools/explanation_text.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace fa2::tools {
namespace {

using Line = std::pair<std::string, std::string>;

std::string resources_text(const KernelResources& r) {
  return fmt::format("{} registers, {} + {} bytes of shared memory (static + dynamic), {} threads",
                     r.registers, r.static_shared_bytes, r.dynamic_shared_bytes, r.threads);
}

std::string spills_text(const KernelResources& r) {
  return fmt::format("{} bytes stored, {} loaded, {} of stack", r.spill_store_bytes, r.spill_load_bytes,
                     r.stack_bytes);
}

void add_lines(std::vector<Line>& lines, const KernelReport& k) {
  const Line facts[] = {
      {"config", to_string(k.config)},
      {"chosen", fmt::format("{}: {}", to_string(k.config_origin), k.config_reason)},
      {"kernel", std::string(to_string(k.origin))},
      {"path", k.path},
      {"compiler", k.compiler},
      {"compiled in", fmt::format("{:.1f} ms", k.compile_ms)},
      {"loaded in", fmt::format("{:.2f} ms", k.load_ms)},
      {"binary", fmt::format("{} bytes", k.binary_bytes)},
      {"resources", resources_text(k.resources)},
      {"spills", spills_text(k.resources)},
      {"blocks per SM", fmt::format("{}", k.blocks_per_sm)},
      {"key", k.key},
  };
  lines.insert(lines.end(), std::begin(facts), std::end(facts));
  for (const KeyPart& part : k.key_parts) lines.emplace_back("  " + part.name, part.value);
}

std::vector<Line> lines_of(const Explanation& e) {
  std::vector<Line> lines = {
      {"problem", to_string(e.problem)}, {"arch", e.arch}, {"device", e.device}, {"notes", e.notes}};
  for (const KernelReport& kernel : e.kernels) add_lines(lines, kernel);
  return lines;
}

/// Continuation lines of a value start below its first one.
std::string indented(const std::string& value, std::size_t column) {
  std::string text;
  for (const char c : value) {
    text += c;
    if (c == '\n') text.append(column, ' ');
  }
  return text;
}

}  // namespace

std::string to_text(const Explanation& explanation) {
  std::vector<Line> lines = lines_of(explanation);
  std::erase_if(lines, [](const Line& line) { return line.second.empty(); });
  std::size_t width = 0;
  for (const auto& [label, value] : lines) width = std::max(width, label.size());
  std::string text;
  for (const auto& [label, value] : lines) {
    text += fmt::format("{:<{}}  {}\n", label, width, indented(value, width + 2));
  }
  return text;
}

}  // namespace fa2::tools
