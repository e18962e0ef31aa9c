// Counts the plans and kernels that fa2 makes, by its log.
#pragma once

#include <fa2/log.h>

#include <atomic>
#include <cstdint>

namespace example {

/// Takes fa2's log while it exists, at level debug, and counts lines. Prints messages that would have been printed without it. At
/// most one may exist.
class KernelLog {
 public:
  KernelLog();
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  std::int64_t plans() const { return plans_; }                ///< new plans so far
  std::int64_t compilations() const { return compilations_; }  ///< kernels compiled so far

 private:
  fa2::LogLevel printed_;  ///< least level of printed messages
  std::atomic<std::int64_t> plans_ = 0, compilations_ = 0;
};

}  // namespace example
