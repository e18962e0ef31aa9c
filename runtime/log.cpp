// The library's logger: its own spdlog logger, in no registry that the host program shares.
#include <runtime/env.h>
#include <runtime/log.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <mutex>
#include <unordered_set>

namespace fa2 {
namespace {

spdlog::logger* make_logger() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto* logger = new spdlog::logger("fa2", std::move(sink));
  logger->set_pattern("[%H:%M:%S.%e] %n %^%l%$: %v");
  const std::string level = env("FA2_LOG").value_or("warn");
  const auto parsed = spdlog::level::from_str(level);
  const bool known =
      parsed != spdlog::level::off || level == "off";  // from_str says off to any word it does not know
  logger->set_level(known ? parsed : spdlog::level::warn);
  if (!known) {
    logger->warn("FA2_LOG={} is no level; using warn (trace, debug, info, warn, error, critical, off)",
                 level);
  }
  return logger;
}

}  // namespace

spdlog::logger& log() {
  static spdlog::logger& logger = *make_logger();  // never destroyed: destructors of other statics may log
  return logger;
}

void warn_once(const std::string& topic, const std::string& message) {
  static std::mutex mutex;
  static auto& seen = *new std::unordered_set<std::string>;
  bool first = false;
  {
    const std::lock_guard lock(mutex);
    first = seen.insert(topic).second;
  }
  log().log(first ? spdlog::level::warn : spdlog::level::debug, message);
}

}  // namespace fa2
