// fa2's log: one per process, on stderr or in the program's own logger.
#pragma once

#include <fa2/types.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace fa2 {

enum class LogLevel : std::uint8_t { trace, debug, info, warn, error, critical, off };

/// Takes one message: UTF-8, without a newline at its end. `level` is never LogLevel::off.
using LogCallback = std::function<void(LogLevel level, std::string_view message)>;

/// Sends messages to `callback` instead of stderr; an empty one sends them to stderr again. The log belongs to the process, not to a
/// Context: drivers, NVRTC and caches log outside of any.
///
/// Threads that call fa2, and compiling threads of fa2, call `callback`; their calls may overlap. fa2 may hold locks meanwhile, so
/// `callback` must not call fa2, and must not wait for a lock that another thread holds while it calls fa2.
/// If `callback` throws, fa2 drops the exception and writes the message to stderr.
///
/// Thread-safe. Waits until no call of the previous callback runs. @throws InvalidRequest if a callback calls it.
FA2_API void set_log(LogCallback callback);

/// Drops messages below `level`, in place of FA2_LOG. Thread-safe.
FA2_API void set_log_level(LogLevel level);

/// Returns the level of set_log_level(), else that of FA2_LOG, else LogLevel::warn.
FA2_API LogLevel log_level();

}  // namespace fa2
