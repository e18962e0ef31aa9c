// NumPy's .npy files: float16, float32 and int32 arrays in C order.
#pragma once

#include <tools/output_file.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace fa2::tools {

struct NpyArray {
  std::vector<std::int64_t> shape;
  /// float16 bits, float32 or int32 values, in C order.
  std::variant<std::vector<std::uint16_t>, std::vector<float>, std::vector<std::int32_t>> values;

  bool is_float16() const { return values.index() == 0; }
};

/// How many dimensions an array may have.
struct Ranks {
  std::size_t least = 0;
  std::size_t most = 0;
};

/// What elements may be: float16 and float32, or int32.
enum class NpyElements : std::uint8_t { floats, int32 };

/// Reads format versions 1.0 and 2.0.
/// @throws Error naming the file and what is wrong with it: missing, truncated, too long, malformed header,
/// Fortran
///         order, big endian, another dtype, another rank.
NpyArray read_npy(const std::filesystem::path& path, const Ranks& ranks,
                  NpyElements elements = NpyElements::floats);

/// Writes version 1.0, all but the file's commit(). @throws Error if it cannot be written, or if shape and
/// number of values differ.
void write_npy(OutputFile& file, const NpyArray& array);

/// The same into a file of that path.
void write_npy(const std::filesystem::path& path, const NpyArray& array);

/// "(1, 405, 12, 32)"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace fa2::tools
