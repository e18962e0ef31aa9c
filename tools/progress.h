// Progress of long work on stderr: one redrawn line, or plain lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fa2::tools {

/// "compiling 7/24, 3.1/s, 5 s left: <detail>". A terminal shows it at most ten times a second and erases it
/// at the end. With --json it is silent unless stderr is a terminal and stdout is not. Not thread-safe.
class Progress {
 public:
  /// Output if stderr is not a terminal: nothing, or a line for each tenth of the work.
  enum class Elsewhere : std::uint8_t { silent, tenths };

  /// `total` 0: the work has no steps, and only `what` is shown.
  Progress(std::string what, std::size_t total, bool json, Elsewhere elsewhere = Elsewhere::silent);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::size_t done, const std::string& detail = {});

 private:
  void draw(const std::string& line) const;
  void print_tenth(std::size_t done, const std::string& detail);
  std::string line(std::size_t done, const std::string& detail) const;

  std::string what_;
  std::size_t total_;
  bool visible_;
  bool prints_tenths_;
  std::size_t tenths_ = 0;  ///< number printed
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_{};
};

/// Returns the line: "compiling 7/24, 3.1/s, 5 s left: detail".
std::string progress_line(const std::string& what, std::size_t done, std::size_t total, double seconds,
                          const std::string& detail);

}  // namespace fa2::tools
