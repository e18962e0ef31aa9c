// When this process began, and times as text.
#pragma once

#include <ctime>
#include <string>

namespace fa2 {

/// Returns when the library was loaded, which ranks that are launched together do together.
std::time_t process_start();

/// Returns "2026-11-26T17:55:04Z".
std::string utc_text(std::time_t time);

}  // namespace fa2
