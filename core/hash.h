// 128-bit content hashes (XXH3) as 32 lower-case hex digits.
#pragma once

#include <string>
#include <string_view>

namespace fa2 {

std::string content_hash(std::string_view bytes);

}  // namespace fa2
