// Implements fa2/c_log.h on fa2/log.h.
#include <api/c_guard.h>
#include <api/c_structs.h>
#include <fa2/c_log.h>
#include <fa2/log.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

fa2_status fa2_set_log(fa2_log_callback callback, void* data) {
  using namespace fa2;
  return guarded([&] {
    if (callback == nullptr) return set_log({});
    set_log([callback, data](LogLevel level, std::string_view message) {
      callback(data, static_cast<std::int32_t>(level), std::string(message).c_str());
    });
  });
}

fa2_status fa2_set_log_level(int32_t level) {
  using namespace fa2;
  return guarded([&] {
    if (level < FA2_LOG_TRACE || level > FA2_LOG_OFF)
      throw InvalidRequest(
          {{"level", fmt::format("{}", level), "must be FA2_LOG_TRACE (0) to FA2_LOG_OFF (6)"}});
    set_log_level(static_cast<LogLevel>(level));
  });
}

int32_t fa2_log_level(void) {
  return static_cast<int32_t>(fa2::log_level());
}
