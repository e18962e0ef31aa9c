// The header of a .npy file: a Python dict in ASCII.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::tools {

struct NpyHeader {
  std::string descr;  ///< "<f2"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Parses "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2), }", with padding and newline. It must
/// have exactly these three keys, in any order. @throws Error(invalid_request) that says what was expected,
/// and where.
NpyHeader parse_npy_header(std::string_view text);

/// Returns the text of a header, without padding.
std::string to_string(const NpyHeader& header);

}  // namespace fa2::tools
