// fa2's logger: spdlog, named "fa2", private to the library. fa2/log.h documents its output; FA2_LOG sets the
// level.
#pragma once

#include <spdlog/logger.h>

namespace fa2 {

spdlog::logger& log();

/// Logs at warn level the first time this process sees `topic`, at debug level afterwards.
void warn_once(const std::string& topic, const std::string& message);
/// Logs at info level the first time this process sees `topic`, at debug level afterwards.
void info_once(const std::string& topic, const std::string& message);

}  // namespace fa2
