// Source lines of a kernel and threads, as text.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <interpreter/machine.cuh>
#include <string>

namespace fa2::interpreter {

inline std::string text_of(Site site) {
  return fmt::format("{}:{}", site.file, site.line);
}

inline bool same(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

inline std::string thread_text(int thread) {
  return fmt::format("thread {} (warp {}, lane {})", thread, thread / 32, thread % 32);
}

}  // namespace fa2::interpreter
