// The table of GPU architectures.
#include <core/arch.h>
#include <core/gpu_names.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace fa2 {

namespace {

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; shared memory in bytes.
constexpr std::array kArchs = {
    //   name       cc  exact  per block  per SM  reserved  registers  threads  blocks
    Arch{"sm_80", 80, false, 166912, 167936, 1024, 65536, 2048, 32},
    Arch{"sm_86", 86, false, 101376, 102400, 1024, 65536, 1536, 16},
    Arch{"sm_87", 87, false, 166912, 167936, 1024, 65536, 1536, 16},
    Arch{"sm_89", 89, false, 101376, 102400, 1024, 65536, 1536, 24},
    Arch{"sm_90a", 90, true, 232448, 233472, 1024, 65536, 2048, 32},
    Arch{"sm_100", 100, false, 232448, 233472, 1024, 65536, 2048, 32},
    Arch{"sm_103", 103, false, 232448, 233472, 1024, 65536, 2048, 32},
    Arch{"sm_110", 110, false, 232448, 233472, 1024, 65536, 1536, 24},
    Arch{"sm_120", 120, false, 101376, 102400, 1024, 65536, 1536, 24},
    Arch{"sm_121", 121, false, 101376, 102400, 1024, 65536, 1536, 24},
};

std::string_view without_suffix(std::string_view name) {
  return !name.empty() && name.back() == 'a' ? name.substr(0, name.size() - 1) : name;
}

}  // namespace

std::span<const Arch> known_archs() {
  return kArchs;
}

const Arch& interpreter_arch() {
  static constexpr Arch kInterpreter{"interpreter", 90, true, 232448, 233472, 1024, 65536, 2048, 32, true};
  return kInterpreter;
}

const Arch* find_arch(std::string_view name) {
  if (name == interpreter_arch().name) return &interpreter_arch();
  if (const std::string_view of_gpu = arch_name_of_gpu(name); !of_gpu.empty()) name = of_gpu;
  const auto found = std::ranges::find_if(
      kArchs, [&](const Arch& arch) { return arch.name == name || without_suffix(arch.name) == name; });
  return found == kArchs.end() ? nullptr : &*found;
}

const Arch* arch_for_device(int major, int minor) {
  const Arch* best = nullptr;
  for (const Arch& arch : kArchs) {
    const bool runs = arch.exact_only
                          ? arch.compute_capability == major * 10 + minor
                          : arch.compute_capability / 10 == major && arch.compute_capability % 10 <= minor;
    if (runs) best = &arch;
  }
  return best;
}

std::string known_arch_names() {
  std::string names;
  for (const Arch& arch : kArchs) names += fmt::format("{}{}", names.empty() ? "" : ", ", arch.name);
  return names;
}

int resident_blocks(const Arch& arch, int threads, int registers, int shared_bytes) {
  constexpr int kRegistersPerUnit = 256;
  const int warps = (threads + 31) / 32;
  const int warp_registers = (registers * 32 + kRegistersPerUnit - 1) / kRegistersPerUnit * kRegistersPerUnit;
  const int by_registers =
      registers == 0 ? arch.blocks_per_sm : arch.registers_per_sm / (warp_registers * warps);
  const int by_shared = arch.shared_per_sm / (shared_bytes + arch.shared_reserved);
  return std::min({by_registers, by_shared, arch.threads_per_sm / (warps * 32), arch.blocks_per_sm});
}

}  // namespace fa2
