// Reads and writes .npy files (NEP 1, format versions 1.0 and 2.0).
#include <core/capture_types.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <operation/operands/captured_bytes.h>
#include <tools/npy.h>
#include <tools/npy_header.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>

namespace fa2::tools {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are read and written as they lie in memory");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeaderBytes = 1 << 16;
constexpr std::size_t kAlignment = 64;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::invalid_request, message);
}

/// Reads the bytes of a file in order, and knows where it ends.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path, std::ios::binary) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error) fail(error.message());
    if (!file_) fail(std::strerror(errno));
  }

  void read(void* to, std::uint64_t bytes, const char* what) {
    if (bytes > rest()) {
      fail(fmt::format("truncated: {} need {} bytes, {} are left", what, bytes, rest()));
    }
    if (!file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) {
      fail(fmt::format("{} could not be read: {}", what, std::strerror(errno)));
    }
    at_ += bytes;
  }

  std::uint64_t rest() const { return size_ - at_; }

 private:
  std::ifstream file_;
  std::uint64_t size_ = 0;
  std::uint64_t at_ = 0;
};

NpyHeader read_header(Reader& file) {
  std::array<unsigned char, 8> start{};
  file.read(start.data(), start.size(), "magic and version");
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    fail("not a .npy file: it does not start with \\x93NUMPY");
  }
  const int major = start[6], minor = start[7];
  if ((major != 1 && major != 2) || minor != 0) {
    fail(fmt::format("format version = {}.{}, must be 1.0 or 2.0", major, minor));
  }
  std::array<unsigned char, 4> length{};
  file.read(length.data(), major == 1 ? 2 : 4, "header length");
  const std::size_t bytes =
      length[0] | std::size_t{length[1]} << 8 | std::size_t{length[2]} << 16 | std::size_t{length[3]} << 24;
  if (bytes > kMaxHeaderBytes)
    fail(fmt::format("header of {} bytes, the limit is {}", bytes, kMaxHeaderBytes));
  std::string text(bytes, '\0');
  file.read(text.data(), bytes, "header");
  return parse_npy_header(text);
}

void require_dtype(const std::string& descr, NpyElements elements) {
  const bool floats = elements == NpyElements::floats;
  const auto is_known = [&](const std::string& type) {
    return floats ? type == "f2" || type == "f4" : type == "i4";
  };
  const std::string type = descr.substr(std::min<std::size_t>(1, descr.size()));
  if (is_known(type) && descr[0] == '<') return;
  if (is_known(type) && descr[0] == '>')
    fail(fmt::format("dtype = '{}', must not be big endian: save array.astype('<{}')", descr, type));
  fail(fmt::format("dtype = '{}', must be {}", descr,
                   floats ? "float16 ('<f2') or float32 ('<f4'): save array.astype(numpy.float32)"
                          : "int32 ('<i4'): save array.astype(numpy.int32)"));
}

std::uint64_t count_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count) ||
        count > std::numeric_limits<std::uint64_t>::max() / 8) {
      fail(fmt::format("shape = {}, must fit 64 bits", shape_text(shape)));
    }
  }
  return count;
}

/// Reads the rest of the file. `each`: values per element.
template <class Value>
std::vector<Value> read_values(Reader& file, const std::vector<std::int64_t>& shape, std::size_t each = 1) {
  const std::uint64_t count = count_of(shape) * each, bytes = count * sizeof(Value);
  // Before any allocation, because the shape may be nonsense.
  if (file.rest() != bytes) {
    fail(fmt::format("{}: shape {} needs {} bytes of data, the file has {}",
                     file.rest() < bytes ? "truncated" : "too long", shape_text(shape), bytes, file.rest()));
  }
  std::vector<Value> values(count);
  file.read(values.data(), bytes, "data");
  return values;
}

void require_c_order(const NpyHeader& header) {
  if (header.fortran_order) fail("Fortran order, must be C order: save numpy.ascontiguousarray(array)");
}

NpyArray read(const std::filesystem::path& path, const Ranks& ranks, NpyElements elements) {
  Reader file(path);
  const NpyHeader header = read_header(file);
  require_dtype(header.descr, elements);
  require_c_order(header);
  const std::size_t rank = header.shape.size();
  if (rank < ranks.least || rank > ranks.most) {
    const std::string others = ranks.least == ranks.most ? "" : fmt::format(" or {}", ranks.most);
    fail(fmt::format("shape = {} of rank {}, must have rank {}{}", shape_text(header.shape), rank,
                     ranks.least, others));
  }
  if (elements == NpyElements::int32) return {header.shape, read_values<std::int32_t>(file, header.shape)};
  if (header.descr == "<f2") return {header.shape, read_values<std::uint16_t>(file, header.shape)};
  return {header.shape, read_values<float>(file, header.shape)};
}

CapturedArray read_captured(Reader& file) {
  const NpyHeader header = read_header(file);
  const auto* const names = std::ranges::find(kCaptureTypes, header.descr, &CaptureTypeNames::npy);
  if (names == std::end(kCaptureTypes))
    fail(fmt::format(
        "dtype = '{}', must be float16, float32, int32, int64, uint8 or bool, little endian: save "
        "array.astype(numpy.float32)",
        header.descr));
  require_c_order(header);
  const auto each = static_cast<std::size_t>(bytes_of(names->type));
  return {names->type, header.shape, read_values<std::byte>(file, header.shape, each)};
}

/// Calls `read`, and names the file in what it throws.
template <class Read>
auto named(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    fail(path.string() + ": " + error.what());
  }
}

/// Returns magic to newline, padded to a multiple of 64 bytes so that the data can be mapped.
std::string file_start(const NpyHeader& header) {
  std::string text = to_string(header);
  const std::size_t before = kMagic.size() + 4;
  text.append(kAlignment - 1 - (before + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string start(kMagic);
  start += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return start + text;
}

}  // namespace

NpyArray read_npy(const std::filesystem::path& path, const Ranks& ranks, NpyElements elements) {
  return named(path, [&] { return read(path, ranks, elements); });
}

CapturedArray read_captured(const std::filesystem::path& path) {
  return named(path, [&] {
    Reader file(path);
    return read_captured(file);
  });
}

void write_npy(OutputFile& file, const NpyArray& array) {
  constexpr const char* kDescrs[] = {"<f2", "<f4", "<i4"};  // in the order of NpyArray::values
  const NpyHeader header{kDescrs[array.values.index()], false, array.shape};
  const auto write = [&](const auto& values) {
    if (values.size() != count_of(array.shape)) {
      throw Error(ErrorCode::internal,
                  fmt::format("{} values for shape {}", values.size(), shape_text(array.shape)));
    }
    const std::string start = file_start(header);
    file.write(start.data(), start.size());
    file.write(values.data(), values.size() * sizeof values[0]);
  };
  std::visit(write, array.values);
}

void write_npy(const std::filesystem::path& path, const NpyArray& array) {
  OutputFile file(path);
  write_npy(file, array);
  file.commit();
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace fa2::tools
