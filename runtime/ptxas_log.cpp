// Reads the report of ptxas, line by line.
#include <fmt/format.h>
#include <runtime/ptxas_log.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace fa2 {
namespace {

bool contains(std::string_view line, std::string_view text) {
  return line.find(text) != std::string_view::npos;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Returns the number before `unit`: 232 for " bytes stack frame" in " 232 bytes stack frame, ...".
std::optional<std::int32_t> number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t begin = end;
  while (begin > 0 && is_digit(line[begin - 1])) --begin;
  std::int32_t number = 0;
  const auto result = std::from_chars(line.data() + begin, line.data() + end, number);
  if (result.ec != std::errc{}) return std::nullopt;
  return number;
}

/// Raises `field` to the number in this line. A kernel's functions that were not inlined have lines of their
/// own, and the largest number counts.
void read(std::string_view line, std::string_view unit, std::int32_t& field) {
  if (const auto number = number_before(line, unit)) field = std::max(field, *number);
}

/// Returns whether ptxas reports a changed wgmma:
/// "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."
bool is_wgmma_message(std::string_view line) {
  const std::size_t at = line.find("(C75");
  return at != std::string_view::npos && line.size() > at + 6 && is_digit(line[at + 4]) &&
         is_digit(line[at + 5]) && line[at + 6] == ')';
}

}  // namespace

PtxasReport parse_ptxas_log(std::string_view log, std::string_view entry) {
  PtxasReport report;
  const std::string quoted = fmt::format("'{}'", entry);
  bool ours = false;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    if (is_wgmma_message(line)) report.wgmma_messages.emplace_back(line);
    if (contains(line, "Compiling entry function ")) ours = contains(line, quoted);
    if (!ours) continue;
    KernelResources& resources = report.resources;
    read(line, " registers", resources.registers);
    read(line, " bytes stack frame", resources.stack_bytes);
    read(line, " bytes cumulative stack size", resources.stack_bytes);
    read(line, " bytes spill stores", resources.spill_store_bytes);
    read(line, " bytes spill loads", resources.spill_load_bytes);
    read(line, " bytes smem", resources.static_shared_bytes);
  }
  return report;
}

}  // namespace fa2
