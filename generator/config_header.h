// The constants that templates are compiled with.
#pragma once

#include <generator/kernel_spec.h>

#include <string>
#include <string_view>

namespace fa2 {

/// Returns config.cuh: the constants of the spec that differ from config_defaults.cuh. `title` goes into a comment.
std::string config_header(const KernelSpec& spec, std::string_view title);

/// Returns what templates/config_defaults.cuh must hold.
std::string config_defaults_header();

}  // namespace fa2
