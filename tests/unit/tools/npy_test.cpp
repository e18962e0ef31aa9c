// .npy files: round trips, and every way in which a file can be wrong.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <tests/support/temporary_directory.h>
#include <tools/npy.h>
#include <tools/npy_header.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using namespace fa2::tools;
using fa2::test::TemporaryDirectory;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Returns a file of any version with any header and data.
std::string npy_bytes(char major, const std::string& header, const std::string& data) {
  std::string bytes = "\x93NUMPY";
  bytes += {major, '\0'};
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

std::string message_of_reading(const std::string& bytes, std::size_t rank = 2) {
  const TemporaryDirectory dir;
  const auto path = dir / "x.npy";
  write_bytes(path, bytes);
  try {
    read_npy(path, {rank, rank});
  } catch (const fa2::Error& error) {
    const std::string message = error.what();
    CHECK(message.find(path.string()) == 0);
    return message.substr(path.string().size() + 2);
  }
  return "read without an error";
}

std::string message_of_parsing(const std::string& header) {
  try {
    parse_npy_header(header);
  } catch (const fa2::Error& error) {
    return error.what();
  }
  return "parsed without an error";
}

bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != std::string::npos;
}

const std::string kHeader = "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }\n";
const std::string kData(12, '\x01');

}  // namespace

TEST_CASE("npy: float16 and float32 survive a round trip") {
  const TemporaryDirectory dir;
  const NpyArray halves{{2, 1, 3}, std::vector<std::uint16_t>{0, 0x3c00, 0x7e00, 0xffff, 1, 2}};
  write_npy(dir / "h.npy", halves);
  const NpyArray read = read_npy(dir / "h.npy", {3, 3});
  CHECK(read.shape == halves.shape);
  CHECK(read.is_float16());
  CHECK(read.values == halves.values);

  const NpyArray floats{{1, 2}, std::vector<float>{-0.0f, 1e-40f}};
  write_npy(dir / "f.npy", floats);
  CHECK_FALSE(read_npy(dir / "f.npy", {2, 2}).is_float16());
  CHECK(read_npy(dir / "f.npy", {2, 2}).values == floats.values);
}

TEST_CASE("npy: int32 where it is requested, and nothing else there") {
  const TemporaryDirectory dir;
  const NpyArray table{{3}, std::vector<std::int32_t>{0, -7, 2147483647}};
  write_npy(dir / "i.npy", table);
  const NpyArray read = read_npy(dir / "i.npy", {1, 1}, NpyElements::int32);
  CHECK(read.shape == table.shape);
  CHECK(read.values == table.values);
  CHECK_THROWS_WITH_AS(read_npy(dir / "i.npy", {1, 1}), doctest::Contains("dtype = '<i4', must be float16"),
                       fa2::Error);
  for (const auto& [descr, message] :
       {std::pair{"<f4", "dtype = '<f4', must be int32 ('<i4'): save array.astype(numpy.int32)"},
        {"<i8", "dtype = '<i8', must be int32"},
        {">i4", "dtype = '>i4', must not be big endian: save array.astype('<i4')"},
        {"", "dtype = '', must be int32"}}) {
    const std::string header =
        std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (3,)}";
    write_bytes(dir / "i.npy", npy_bytes(1, header, kData));
    CHECK_THROWS_WITH_AS(read_npy(dir / "i.npy", {1, 1}, NpyElements::int32), doctest::Contains(message),
                         fa2::Error);
  }
}

TEST_CASE("npy: shapes with zeros, of rank 1 and of rank 0") {
  const TemporaryDirectory dir;
  for (const auto& shape : {std::vector<std::int64_t>{3, 0, 2}, {0}, {1}, {}}) {
    const std::size_t count = shape.size() == 3 || (shape.size() == 1 && shape[0] == 0) ? 0 : 1;
    write_npy(dir / "x.npy", {shape, std::vector<float>(count, 2.0f)});
    const NpyArray read = read_npy(dir / "x.npy", {shape.size(), shape.size()});
    CHECK(read.shape == shape);
    CHECK(std::get<1>(read.values).size() == count);
  }
}

TEST_CASE("npy: files are written as format 1.0 with aligned data") {
  const TemporaryDirectory dir;
  write_npy(dir / "x.npy", {{1, 2, 1, 1}, std::vector<std::uint16_t>{0x1234, 0x5678}});
  const std::string bytes = bytes_of(dir / "x.npy");
  REQUIRE(bytes.size() == 128 + 4);
  CHECK(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  CHECK(bytes.substr(10, 63) == "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2, 1, 1),");
  CHECK(bytes[127] == '\n');
  CHECK(bytes.substr(128) == "\x34\x12\x78\x56");
}

TEST_CASE("npy: version 2.0, double quotes and any order of keys are read") {
  const TemporaryDirectory dir;
  write_bytes(dir / "x.npy",
              npy_bytes(2, "{\"shape\": (2,3), 'fortran_order':False, 'descr' : '<f2'}", kData));
  const NpyArray array = read_npy(dir / "x.npy", {2, 2});
  CHECK(array.shape == std::vector<std::int64_t>{2, 3});
  CHECK(std::get<0>(array.values) == std::vector<std::uint16_t>(6, 0x0101));
}

TEST_CASE("npy: files that end too early or too late") {
  const std::string whole = npy_bytes(1, kHeader, kData);
  REQUIRE(message_of_reading(whole) == "read without an error");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(contains(message_of_reading(whole.substr(0, size)), "truncated"));
  }
  CHECK(contains(message_of_reading(whole + "x"),
                 "too long: shape (2, 3) needs 12 bytes of data, the file has 13"));
}

TEST_CASE("npy: arrays that attention does not take") {
  const auto with = [](const std::string& header) { return message_of_reading(npy_bytes(1, header, kData)); };
  CHECK(contains(with("{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3)}"), "Fortran order"));
  CHECK(contains(with("{'descr': '>f2', 'fortran_order': False, 'shape': (2, 3)}"),
                 "'>f2', must not be big endian"));
  CHECK(
      contains(with("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}"), "dtype = '<f8', must be"));
  CHECK(contains(with("{'descr': [('x', '<f2')], 'fortran_order': False, 'shape': (2, 3)}"), "structured"));
  CHECK(contains(message_of_reading(npy_bytes(1, kHeader, kData), 4),
                 "shape = (2, 3) of rank 2, must have rank 4"));
}

TEST_CASE("npy: files of other formats, and absurd shapes") {
  CHECK(contains(message_of_reading("PK\x03\x04 a zip archive"), "not a .npy file"));
  CHECK(contains(message_of_reading(npy_bytes(3, kHeader, kData)), "format version = 3.0"));
  CHECK(contains(message_of_reading(npy_bytes(2, std::string(70000, ' '), kData)), "header of 70000 bytes"));
  const std::string huge = "{'descr': '<f2', 'fortran_order': False, 'shape': (4611686018427387904, 8)}";
  CHECK(contains(message_of_reading(npy_bytes(1, huge, kData)), "must fit 64 bits"));
  const std::string large = "{'descr': '<f2', 'fortran_order': False, 'shape': (1000000000, 1000000)}";
  CHECK(contains(message_of_reading(npy_bytes(1, large, kData)), "truncated"));
  const TemporaryDirectory dir;
  CHECK_THROWS_WITH_AS(read_npy(dir / "none.npy", {4, 4}), doctest::Contains("No such file"), fa2::Error);
  CHECK_THROWS_AS(read_npy(dir.path(), {4, 4}), fa2::Error);
}

TEST_CASE("npy: malformed headers") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected '{'"},
      {"{'descr': '<f2', 'fortran_order': False}", "must all be there"},
      {"{'descr': '<f2', 'descr': '<f2', 'shape': ()}", "'descr' appears twice"},
      {"{'descr': '<f2', 'order': False, 'shape': ()}", "unknown key 'order'"},
      {"{'descr': '<f2' 'shape': ()}", "expected '}'"},
      {"{descr: '<f2'}", "expected a key in quotes"},
      {"{'descr': 7}", "expected a dtype in quotes"},
      {"{'descr': '<f2", "a string without an end"},
      {"{'descr': '<f\\x32'}", "does not belong into a string"},
      {"{'fortran_order': 0}", "expected True or False"},
      {"{'shape': 2}", "expected '('"},
      {"{'shape': (2)}", "needs a comma"},
      {"{'shape': (2 3)}", "expected ',' or ')'"},
      {"{'shape': (2, -3)}", "not negative"},
      {"{'shape': (2, 3L)}", "expected ',' or ')'"},
      {"{'shape': (,)}", "expected a number"},
      {"{'shape': (99999999999999999999,)}", "beyond 64 bits"},
      {"{'descr': '<f2', 'fortran_order': False, 'shape': ()} x", "nothing after the dict"},
  };
  for (const auto& [text, problem] : cases) {
    const std::string header = text;
    CAPTURE(header);
    CHECK(contains(message_of_parsing(header), problem));
    CHECK(contains(message_of_parsing(header), "malformed header at character"));
  }
}

TEST_CASE("npy: writing data that does not fit, or to an impossible place") {
  const TemporaryDirectory dir;
  CHECK_THROWS_AS(write_npy(dir / "x.npy", {{2, 2}, std::vector<float>(3)}), fa2::Error);
  CHECK_FALSE(std::filesystem::exists(dir / "x.npy"));
  CHECK_THROWS_WITH_AS(write_npy(dir / "no/x.npy", {{1}, std::vector<float>(1)}),
                       doctest::Contains("cannot write"), fa2::Error);
}

TEST_CASE("npy: arrays that texts capture, of every type and rank") {
  const TemporaryDirectory dir;
  const auto read = [&](const std::string& descr, const std::string& shape, const std::string& data,
                        const std::string& order = "False") {
    write_bytes(
        dir / "x.npy",
        npy_bytes(1, "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + "}",
                  data));
    return read_captured(dir / "x.npy");
  };
  struct Row {
    std::string descr;
    fa2::CaptureType type;
    int bytes;
  };
  for (const Row& row : {Row{"<f2", fa2::CaptureType::f16, 2}, Row{"<f4", fa2::CaptureType::f32, 4},
                         Row{"<i4", fa2::CaptureType::i32, 4}, Row{"<i8", fa2::CaptureType::i64, 8},
                         Row{"|u1", fa2::CaptureType::u8, 1}, Row{"|b1", fa2::CaptureType::boolean, 1}}) {
    CAPTURE(row.descr);
    std::string data;
    for (int i = 0; i < 6 * row.bytes; ++i) data += static_cast<char>(i);
    const CapturedArray array = read(row.descr, "(2, 3)", data);
    CHECK(array.type == row.type);
    CHECK(array.shape == std::vector<std::int64_t>{2, 3});
    REQUIRE(array.elements.size() == data.size());
    CHECK(std::memcmp(array.elements.data(), data.data(), data.size()) == 0);
    CHECK_THROWS_WITH_AS(read(row.descr, "(2, 3)", data.substr(1)),
                         doctest::Contains("x.npy: truncated: shape"), fa2::Error);
  }
  CHECK(read("<f4", "()", "abcd").shape.empty());
  CHECK_THROWS_WITH_AS(read("<f8", "()", "abcdefgh"),
                       doctest::Contains("dtype = '<f8', must be float16, float32"), fa2::Error);
  CHECK_THROWS_WITH_AS(read("<f4", "(1, 1)", "abcd", "True"), doctest::Contains("must be C order"),
                       fa2::Error);
}
