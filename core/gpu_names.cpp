// The table of GPU names.
#include <core/gpu_names.h>
#include <fmt/format.h>

#include <cctype>

namespace fa2 {
namespace {

struct GpuName {
  std::string_view name, arch;
};

// CUDA GPU Compute Capability, developer.nvidia.com/cuda-gpus. In the order of archs.
constexpr GpuName kGpuNames[] = {
    {"a100", "sm_80"},    {"a30", "sm_80"},      {"a10", "sm_86"},      {"a40", "sm_86"},
    {"rtx3090", "sm_86"}, {"rtxa6000", "sm_86"}, {"orin", "sm_87"},     {"l4", "sm_89"},
    {"l40", "sm_89"},     {"l40s", "sm_89"},     {"rtx4090", "sm_89"},  {"rtx6000ada", "sm_89"},
    {"h100", "sm_90a"},   {"h200", "sm_90a"},    {"h20", "sm_90a"},     {"h800", "sm_90a"},
    {"gh200", "sm_90a"},  {"b200", "sm_100"},    {"gb200", "sm_100"},   {"b300", "sm_103"},
    {"gb300", "sm_103"},  {"thor", "sm_110"},    {"rtx5090", "sm_120"}, {"rtxpro6000", "sm_120"},
    {"gb10", "sm_121"},
};

/// Returns "rtx4090" for "RTX 4090".
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_')
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace

std::string_view arch_name_of_gpu(std::string_view name) {
  const std::string wanted = plain(name);
  for (const GpuName& gpu : kGpuNames) {
    if (gpu.name == wanted) return gpu.arch;
  }
  return {};
}

std::string known_gpu_names() {
  std::string text;
  std::string_view arch;
  for (const GpuName& gpu : kGpuNames) {
    if (gpu.arch != arch) text += arch.empty() ? "" : fmt::format(": {}; ", arch);
    text += fmt::format("{}{}", gpu.arch == arch ? ", " : "", gpu.name);
    arch = gpu.arch;
  }
  return text + fmt::format(": {}", arch);
}

}  // namespace fa2
