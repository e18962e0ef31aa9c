// What a compiler's refusals say.
#pragma once

#include <string_view>

namespace fa2::test {

/// Returns whether a kernel was refused because it spills, or because descriptors lie outside of uniform registers. The
/// compiler also refuses serialised wgmmas, which no test expects.
inline bool lacks_registers(std::string_view refusal) {
  if (refusal.starts_with("moves ")) return true;
  return refusal.find("of spill stores") != std::string_view::npos &&
         refusal.find(" 0 of spill stores, 0 of spill loads") == std::string_view::npos;
}

}  // namespace fa2::test
