// GPUs by the names that people give them.
#pragma once

#include <string>
#include <string_view>

namespace fa2 {

/// Returns the arch of a GPU, as find_arch() does: "sm_90a" of "h100", "H100" or "h-100"; empty if there is none of that name.
std::string_view arch_name_of_gpu(std::string_view name);

/// Returns "a100, a30: sm_80; a10, ...: sm_86; ...", for help.
std::string known_gpu_names();

}  // namespace fa2
