// An explanation for people.
#pragma once

#include <fa2/attention.h>

#include <string>

namespace fa2::tools {

/// Aligned "label  value" lines, each ended by a newline.
std::string to_text(const Explanation& explanation);

}  // namespace fa2::tools
