// Headers of .npy files.
#include <fa2/errors.h>
#include <tools/npy_header.h>

#include <algorithm>

#include "fuzz.h"

namespace fa2::fuzz {

std::vector<std::string> seeds() {
  using tools::to_string;
  return {to_string({"<f2", false, {1, 2, 3, 4}}), to_string({"<f4", true, {5}}),
          to_string({"|u1", false, {}}),
          R"({"shape": (2, 3), "descr": "<i8", "fortran_order": False})" + std::string("   \n")};
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  try {
    const tools::NpyHeader header = tools::parse_npy_header(fuzz::text_of(data, size));
    fuzz::require(std::ranges::all_of(header.shape, [](std::int64_t extent) { return extent >= 0; }),
                  "no extent is negative");
    if (header.descr.find('\'') != std::string::npos) return 0;  // no dtype; to_string() quotes with it
    const tools::NpyHeader again = tools::parse_npy_header(to_string(header));
    fuzz::require(again.descr == header.descr && again.fortran_order == header.fortran_order &&
                      again.shape == header.shape,
                  "a printed header is parsed to the same");
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::invalid_request, "a wrong header is an invalid request");
  }
  return 0;
}
