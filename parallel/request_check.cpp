// Not inline, because a list of rules is long enough without the making of strings.
#include <parallel/request_check.h>

#include <iterator>
#include <string>

namespace fa2 {

void RequestCheck::add(std::string_view field, std::string_view value, std::string_view rule) {
  found_.push_back({std::string(field), std::string(value), std::string(rule)});
}

void RequestCheck::add(std::string_view field, std::int64_t value, std::string_view rule) {
  add(field, std::to_string(value), rule);
}

void RequestCheck::add(std::vector<Violation> violations) {
  found_.insert(found_.end(), std::make_move_iterator(violations.begin()),
                std::make_move_iterator(violations.end()));
}

void RequestCheck::require_none() {
  if (!found_.empty()) throw InvalidRequest(take());
}

}  // namespace fa2
