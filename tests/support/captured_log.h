// The messages that the library logs during a test.
#pragma once

#include <runtime/log.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace fa2::test {

/// Collects messages at level warning and above, one line each, instead of printing them. No other thread may
/// log meanwhile.
class CapturedLog {
 public:
  CapturedLog() : saved_(log().sinks()), saved_level_(log().level()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_);
    sink->set_pattern("%v");
    log().sinks() = {sink};
    log().set_level(spdlog::level::warn);
  }
  ~CapturedLog() {
    log().sinks() = saved_;
    log().set_level(saved_level_);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const { return stream_.str(); }
  bool has(const std::string& part) const { return text().find(part) != std::string::npos; }
  std::size_t lines() const {
    const std::string all = text();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n'));
  }

 private:
  std::ostringstream stream_;
  std::vector<spdlog::sink_ptr> saved_;
  spdlog::level::level_enum saved_level_;
};

}  // namespace fa2::test
