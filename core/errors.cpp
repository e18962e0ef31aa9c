// The texts of errors.
#include <core/text.h>
#include <fa2/errors.h>
#include <fmt/format.h>

#include <algorithm>

namespace fa2 {
namespace {

constexpr std::size_t kMostMessage = 64 << 10;
constexpr std::size_t kMostListed = 100;
constexpr std::size_t kMostOfValue = 400;

std::string message_of(const std::vector<Violation>& violations) {
  const std::size_t count = violations.size();
  std::string text = fmt::format("invalid request, {} rule{} broken:", count, count == 1 ? "" : "s");
  for (std::size_t i = 0; i < std::min(count, kMostListed); ++i) text += "\n  " + to_string(violations[i]);
  if (count > kMostListed) text += fmt::format("\n  and {} more", count - kMostListed);
  return text;
}

}  // namespace

std::string to_string(const Violation& violation) {
  return fmt::format("{} = {}, {}", printable(violation.field, kMostOfValue),
                     printable(violation.value, kMostOfValue), violation.rule);
}

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(printable(message, kMostMessage)), code_(code) {}

InvalidRequest::InvalidRequest(std::vector<Violation> violations)
    : Error(ErrorCode::invalid_request, message_of(violations)), violations_(std::move(violations)) {}

}  // namespace fa2
