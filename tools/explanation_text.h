// An explanation as text for people.
#pragma once

#include <fa2/attention.h>
#include <tools/wrap.h>

#include <cstddef>
#include <string>

namespace fa2::tools {

/// Returns aligned "label value" lines, each with a newline.
std::string to_text(const Explanation& explanation, std::size_t width = kAnyWidth);

}  // namespace fa2::tools
