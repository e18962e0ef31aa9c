// NumPy's .npy files with float16, float32 or int32 arrays in C order.
#pragma once

#include <fa2/score_text.h>
#include <tools/output_file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace fa2::tools {

struct NpyArray {
  std::vector<std::int64_t> shape;
  /// float16 bits, float32 or int32 values, in C order
  std::variant<std::vector<std::uint16_t>, std::vector<float>, std::vector<std::int32_t>> values;

  bool is_float16() const { return values.index() == 0; }
};

/// The number of dimensions that an array may have.
struct Ranks {
  std::size_t least = 0;
  std::size_t most = 0;
};

/// The element types that an array may have: float16 and float32, or int32.
enum class NpyElements : std::uint8_t { floats, int32 };

/// Reads format versions 1.0 and 2.0.
/// @throws Error that names the file and what is wrong: missing, truncated, too long, malformed header,
/// Fortran order, big endian, wrong dtype, wrong rank.
NpyArray read_npy(const std::filesystem::path& path, const Ranks& ranks,
                  NpyElements elements = NpyElements::floats);

/// An array that texts of scores capture.
struct CapturedArray {
  CaptureType type = CaptureType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> elements;  ///< in C order
};

/// Reads an array of float16, float32, int32, int64, uint8 or bool, of any rank. @throws Error like read_npy().
CapturedArray read_captured(const std::filesystem::path& path);

/// Writes version 1.0; the caller must commit() the file. @throws Error if it cannot be written, or if the
/// shape does not match the number of values.
void write_npy(OutputFile& file, const NpyArray& array);

/// Writes a new file at `path`, and commits it.
void write_npy(const std::filesystem::path& path, const NpyArray& array);

/// Returns "(1, 405, 12, 32)".
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace fa2::tools
