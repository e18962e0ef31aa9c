// One redrawn line on stderr while long work runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace fa2::tools {

/// "compiling 7/24, 3.1/s, 5 s left: <detail>". Silent unless stderr is a terminal, and under --json if
/// stdout is one too. Redrawn ten times a second at most, its line erased at the end. Not thread-safe.
class Progress {
 public:
  /// `total` 0: the work has no steps; only `what` is shown.
  Progress(std::string what, std::size_t total, bool json);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::size_t done, const std::string& detail = {});

 private:
  void draw(const std::string& line) const;

  std::string what_;
  std::size_t total_;
  bool visible_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_{};
};

/// The line itself: "compiling 7/24, 3.1/s, 5 s left: detail".
std::string progress_line(const std::string& what, std::size_t done, std::size_t total, double seconds,
                          const std::string& detail);

}  // namespace fa2::tools
