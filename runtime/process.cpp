// Remembers when the library was loaded.
#include <runtime/process.h>

namespace fa2 {
namespace {

const std::time_t loaded_at = std::time(nullptr);

}  // namespace

std::time_t process_start() {
  return loaded_at;
}

std::string utc_text(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace fa2
