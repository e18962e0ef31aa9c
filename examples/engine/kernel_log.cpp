// Reads the log.
#include "kernel_log.h"

#include <cstdio>
#include <string_view>

namespace example {

KernelLog::KernelLog() : printed_(fa2::log_level()) {
  fa2::set_log([this](fa2::LogLevel level, std::string_view message) {
    if (message.starts_with("plan of ")) ++plans_;
    if (message.starts_with("compiled ")) ++compilations_;
    if (level >= printed_)
      std::fprintf(stderr, "fa2: %.*s\n", static_cast<int>(message.size()), message.data());
  });
  if (printed_ > fa2::LogLevel::debug) fa2::set_log_level(fa2::LogLevel::debug);
}

KernelLog::~KernelLog() {
  fa2::set_log({});
  fa2::set_log_level(printed_);
}

}  // namespace example
