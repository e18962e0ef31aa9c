// Requests, and the sequences that they become.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace example {

using Tokens = std::vector<std::uint8_t>;

struct Request {
  std::int64_t id = 0;
  Tokens prompt;
  std::int64_t new_tokens = 1;  ///< tokens to generate
};

struct Sequence {
  explicit Sequence(Request from) : request(std::move(from)), tokens(request.prompt) {}

  Request request;
  Tokens tokens;                    ///< the prompt, then the generated tokens
  std::int64_t cached = 0;          ///< leading tokens whose K and V are in the cache
  std::vector<std::int32_t> pages;  ///< pages of the cached tokens, in their order
  std::int64_t preemptions = 0;     ///< how often it gave its pages back and began again

  std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
  /// Returns the tokens that are not in the cache: 1 when it decodes.
  std::int64_t rest() const { return length() - cached; }
  bool is_done() const {
    return length() == static_cast<std::int64_t>(request.prompt.size()) + request.new_tokens;
  }
};

}  // namespace example
