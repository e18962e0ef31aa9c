// Rules that a request breaks.
#pragma once

#include <fa2/errors.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace fa2 {

/// A list of broken rules that grows while a request is checked.
class RequestCheck {
 public:
  void add(std::string_view field, std::string_view value, std::string_view rule);
  void add(std::string_view field, std::int64_t value, std::string_view rule);
  void add(std::vector<Violation> violations);

  bool empty() const { return found_.empty(); }
  std::vector<Violation> take() { return std::move(found_); }

  /// @throws InvalidRequest if a rule is broken.
  void require_none();

 private:
  std::vector<Violation> found_;
};

}  // namespace fa2
