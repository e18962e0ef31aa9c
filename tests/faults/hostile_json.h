// JSON that is valid or nearly valid, and that nobody means.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "subject.h"

namespace fa2::test {

/// Returns the text of `good` with one field missing or exchanged: wrong types, numbers out of range, deep nesting, not a
/// number, bytes that are not UTF-8.
std::string hostile_json(nlohmann::json good, Random& random);

}  // namespace fa2::test
