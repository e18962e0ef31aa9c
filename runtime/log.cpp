// The library's own spdlog logger. It is in no registry that the host program shares.
#include <core/text.h>
#include <fa2/errors.h>
#include <fa2/log.h>
#include <runtime/env.h>
#include <runtime/log.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

constexpr std::size_t kMostMessage = 64 << 10;

static_assert(static_cast<int>(LogLevel::warn) == spdlog::level::warn &&
                  static_cast<int>(LogLevel::off) == spdlog::level::off,
              "levels are cast");

/// The program's callback. Calls of it share the mutex and may overlap; replacing it takes the mutex
/// exclusively.
struct Receiver {
  std::shared_mutex mutex;
  LogCallback callback;
};

Receiver& receiver() {
  static Receiver& only = *new Receiver;  // never destroyed, like the logger
  return only;
}

// If the callback logged through fa2, it would call itself without end.
thread_local bool is_in_callback = false;

/// Returns whether the program's callback took the message.
bool received(const spdlog::details::log_msg& message) {
  if (is_in_callback) return false;
  const std::shared_lock lock(receiver().mutex);
  if (!receiver().callback) return false;
  is_in_callback = true;
  bool took = true;
  try {
    const std::string text = printable({message.payload.data(), message.payload.size()}, kMostMessage);
    receiver().callback(static_cast<LogLevel>(message.level), text);
  } catch (...) {
    took = false;
  }
  is_in_callback = false;
  return took;
}

/// Sends messages to the program's callback, else to stderr.
class Sink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    if (!received(message)) stderr_.log(message);
  }
  void flush() override { stderr_.flush(); }
  void set_pattern(const std::string& pattern) override { stderr_.set_pattern(pattern); }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    stderr_.set_formatter(std::move(formatter));
  }

 private:
  spdlog::sinks::stderr_color_sink_mt stderr_;
};

spdlog::logger* make_logger() {
  auto* logger = new spdlog::logger("fa2", std::make_shared<Sink>());
  logger->set_pattern("[%H:%M:%S.%e] %n %^%l%$: %v");
  const std::string level = env("FA2_LOG").value_or("warn");
  const std::vector<Violation> wrong = violations_of_variable("FA2_LOG", level);
  logger->set_level(wrong.empty() ? spdlog::level::from_str(level) : spdlog::level::warn);
  for (const Violation& v : wrong) logger->warn("{}; warn is used", to_string(v));
  return logger;
}

/// Logs at `level` the first time this process sees `topic`, at debug level afterwards.
void log_once(spdlog::level::level_enum level, const std::string& topic, const std::string& message) {
  static std::mutex mutex;
  static auto& seen = *new std::unordered_set<std::string>;
  bool first = false;
  {
    const std::lock_guard lock(mutex);
    first = seen.insert(topic).second;
  }
  log().log(first ? level : spdlog::level::debug, printable(message, kMostMessage));
}

}  // namespace

spdlog::logger& log() {
  static spdlog::logger& logger = *make_logger();  // never destroyed, because destructors of other statics
                                                   // may log
  return logger;
}

void set_log(LogCallback callback) {
  if (is_in_callback)
    throw InvalidRequest({{"set_log", "called by a log callback", "must be called outside of one"}});
  const std::unique_lock lock(receiver().mutex);
  receiver().callback.swap(callback);
}

void set_log_level(LogLevel level) {
  log().set_level(static_cast<spdlog::level::level_enum>(level));
}

LogLevel log_level() {
  return static_cast<LogLevel>(log().level());
}

void warn_once(const std::string& topic, const std::string& message) {
  log_once(spdlog::level::warn, topic, message);
}

void info_once(const std::string& topic, const std::string& message) {
  log_once(spdlog::level::info, topic, message);
}

}  // namespace fa2
