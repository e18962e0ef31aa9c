// An explanation as text for people.
#include <fmt/format.h>
#include <generator/kernel_spec.h>
#include <tools/explanation_text.h>
#include <tools/table.h>

#include <iterator>

namespace fa2::tools {
namespace {

std::string resources_text(const KernelResources& r) {
  return fmt::format("{} registers, {} + {} bytes of shared memory (static + dynamic), {} threads",
                     r.registers, r.static_shared_bytes, r.dynamic_shared_bytes, r.threads);
}

std::string spills_text(const KernelResources& r) {
  return fmt::format("{} bytes stored, {} loaded, {} of stack", r.spill_store_bytes, r.spill_load_bytes,
                     r.stack_bytes);
}

void add_lines(Lines& lines, const KernelReport& k) {
  const Lines::value_type facts[] = {
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
      {"grid", k.is_persistent ? "persistent blocks, which sm_margin limits" : "a block per tile"},
      {"heads in tile", fmt::format("{}", k.heads_per_tile)},
      {"key", k.key},
  };
  lines.insert(lines.end(), std::begin(facts), std::end(facts));
  for (const KeyPart& part : k.key_parts) lines.emplace_back("  " + part.name, part.value);
}

}  // namespace

std::string to_text(const Explanation& e, std::size_t width) {
  Lines lines = {{"problem", to_string(PlannedProblem(e.problem, e.options))},
                 {"arch", e.arch},
                 {"device", e.device},
                 {"notes", e.notes}};
  for (std::size_t i = 0; i < e.kernels.size(); ++i) {
    const KernelReport& kernel = e.kernels[i];
    if (e.kernels.size() > 1)
      lines.emplace_back(
          "launch", fmt::format("{} of {}: {}", i + 1, e.kernels.size(), to_string(kernel.config.kernel)));
    add_lines(lines, kernel);
  }
  return text(lines, width);
}

}  // namespace fa2::tools
