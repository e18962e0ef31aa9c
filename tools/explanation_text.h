// An explanation for people.
#pragma once

#include <fa2/attention.h>
#include <tools/wrap.h>

#include <cstddef>
#include <string>

namespace fa2::tools {

/// Aligned "label  value" lines, each ended by a newline.
std::string to_text(const Explanation& explanation, std::size_t width = kAnyWidth);

}  // namespace fa2::tools
