// One redrawn line on stderr, or plain lines.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <tools/progress.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <utility>

namespace fa2::tools {
namespace {

constexpr std::chrono::milliseconds kRedraw(100);
constexpr const char* kStartOfLine = "\r\x1b[K";

std::size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79u;
}

}  // namespace

Progress::Progress(std::string what, std::size_t total, bool json, Elsewhere elsewhere)
    : what_(std::move(what)),
      total_(total),
      visible_(isatty(STDERR_FILENO) == 1 && !(json && isatty(STDOUT_FILENO) == 1)),
      prints_tenths_(elsewhere == Elsewhere::tenths && total > 0 && !json && isatty(STDERR_FILENO) == 0) {
  update(0);
}

Progress::~Progress() {
  draw({});
}

void Progress::update(std::size_t done, const std::string& detail) {
  if (prints_tenths_) return print_tenth(done, detail);
  if (!visible_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < kRedraw) return;
  drawn_ = now;
  draw(line(done, detail));
}

void Progress::print_tenth(std::size_t done, const std::string& detail) {
  const std::size_t tenths = done * 10 / total_;
  if (tenths <= tenths_) return;
  tenths_ = tenths;
  fmt::print(stderr, "{}\n", line(done, detail));
  std::fflush(stderr);
}

std::string Progress::line(std::size_t done, const std::string& detail) const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  return progress_line(what_, done, total_, elapsed.count(), detail);
}

void Progress::draw(const std::string& line) const {
  if (!visible_) return;
  fmt::print(stderr, "{}{}", kStartOfLine, line.substr(0, terminal_columns()));
  std::fflush(stderr);
}

std::string progress_line(const std::string& what, std::size_t done, std::size_t total, double seconds,
                          const std::string& detail) {
  std::string line = what;
  if (total > 0) line += fmt::format(" {}/{}", done, total);
  if (done > 0 && seconds > 0) {
    const double rate = static_cast<double>(done) / seconds;
    line +=
        fmt::format(", {:.3g}/s, {:.0f} s left", rate, std::ceil(static_cast<double>(total - done) / rate));
  }
  if (!detail.empty()) line += ": " + detail;
  return line;
}

}  // namespace fa2::tools
