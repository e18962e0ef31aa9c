// The library's logger: its own spdlog logger, in no registry that the host program shares.
#include <generator/text.h>
#include <runtime/env.h>
#include <runtime/log.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace fa2 {
namespace {

constexpr std::size_t kMostMessage = 64 << 10;

spdlog::logger* make_logger() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto* logger = new spdlog::logger("fa2", std::move(sink));
  logger->set_pattern("[%H:%M:%S.%e] %n %^%l%$: %v");
  const std::string level = env("FA2_LOG").value_or("warn");
  const std::vector<Violation> wrong = violations_of_variable("FA2_LOG", level);
  logger->set_level(wrong.empty() ? spdlog::level::from_str(level) : spdlog::level::warn);
  for (const Violation& v : wrong) logger->warn("{}; warn is used", to_string(v));
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
  log().log(first ? spdlog::level::warn : spdlog::level::debug, printable(message, kMostMessage));
}

}  // namespace fa2
