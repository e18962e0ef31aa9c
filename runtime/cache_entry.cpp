// Byte layout of a cache file: "FA2K", version, header length (both uint32, little-endian), header (JSON),
// checksum of all before it (32 hex digits), code. The header holds the code's length and checksum.
#include <core/hash.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/disk_cache.h>
#include <runtime/json_field.h>

#include <algorithm>
#include <string_view>

namespace fa2 {
namespace {

using nlohmann::json;

constexpr std::string_view kEntryMagic = "FA2K";
constexpr std::uint32_t kFormatVersion = 1;
constexpr std::size_t kPrefixBytes = 12;
constexpr std::size_t kHashBytes = 32;
constexpr std::uint32_t kMaxHeaderBytes = 1 << 20;

/// Limits that no GPU exceeds: a header that does is damaged or malicious.
constexpr std::int32_t kMaxRegisters = 255;
constexpr std::int32_t kMaxLocalBytes = 512 << 10;
constexpr std::int32_t kMaxSharedBytes = 1 << 20;
constexpr std::int32_t kMaxThreads = 1024;
constexpr std::int32_t kWarp = 32;
constexpr double kMaxCompileMs = 1e9;

/// Calls field(name, value, largest value) for each resource.
template <class Resources, class Visitor>
void visit_resources(Resources& resources, Visitor&& field) {
  field("registers", resources.registers, kMaxRegisters);
  field("spill_store_bytes", resources.spill_store_bytes, kMaxLocalBytes);
  field("spill_load_bytes", resources.spill_load_bytes, kMaxLocalBytes);
  field("stack_bytes", resources.stack_bytes, kMaxLocalBytes);
  field("static_shared_bytes", resources.static_shared_bytes, kMaxSharedBytes);
  field("dynamic_shared_bytes", resources.dynamic_shared_bytes, kMaxSharedBytes);
  field("threads", resources.threads, kMaxThreads);
}

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void append_u32(std::string& text, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>((value >> shift) & 0xff);
}

std::uint32_t read_u32(std::string_view text, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[offset + i])) << (8 * i);
  }
  return value;
}

std::string header_of(const KernelBinary& binary) {
  json resources = json::object();
  visit_resources(binary.resources,
                  [&](const char* name, std::int32_t value, std::int32_t) { resources[name] = value; });
  const json header = {{"key", binary.key},
                       {"spec", binary.spec},
                       {"arch", binary.arch},
                       {"entry", binary.entry},
                       {"compiler", binary.compiler},
                       {"library", binary.library},
                       {"templates", binary.templates},
                       {"compile_ms", binary.compile_ms},
                       {"resources", resources},
                       {"refused", binary.refused},
                       {"code_bytes", binary.code.size()},
                       {"code_hash", content_hash(text_of(binary.code))}};
  return header.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Returns the header's text. Checks magic, version, length and checksum first.
std::string_view checked_header(std::string_view bytes) {
  if (bytes.size() < kPrefixBytes + kHashBytes) {
    throw CacheError(
        fmt::format("truncated: {} of at least {} bytes", bytes.size(), kPrefixBytes + kHashBytes));
  }
  if (bytes.substr(0, kEntryMagic.size()) != kEntryMagic)
    throw CacheError("not a kernel file: it does not start with FA2K");
  if (const std::uint32_t version = read_u32(bytes, 4); version != kFormatVersion) {
    const std::string text = fmt::format("format version {}, expected {}", version, kFormatVersion);
    if (version > kFormatVersion) throw LaterFormat(text);
    throw CacheError(text);
  }
  const std::uint32_t length = read_u32(bytes, 8);
  if (length > kMaxHeaderBytes) {
    throw CacheError(fmt::format("header length {}, the limit is {}", length, kMaxHeaderBytes));
  }
  if (bytes.size() < kPrefixBytes + length + kHashBytes) {
    throw CacheError(
        fmt::format("truncated: {} of at least {} bytes", bytes.size(), kPrefixBytes + length + kHashBytes));
  }
  if (content_hash(bytes.substr(0, kPrefixBytes + length)) !=
      bytes.substr(kPrefixBytes + length, kHashBytes)) {
    throw CacheError("header checksum differs");
  }
  return bytes.substr(kPrefixBytes, length);
}

/// Returns the code. Checks length and checksum first. `offset`: first byte of the code.
std::string_view checked_code(std::string_view bytes, std::size_t offset, const json& header) {
  const auto expected = static_cast<std::uint64_t>(
      integer_field(header, "code_bytes", 0, std::numeric_limits<std::int64_t>::max() / 2));
  const std::string_view code = bytes.substr(offset);
  if (code.size() < expected) {
    throw CacheError(fmt::format("truncated: {} of {} bytes", bytes.size(), offset + expected));
  }
  if (code.size() > expected) {
    throw CacheError(fmt::format("{} bytes, expected {}", bytes.size(), offset + expected));
  }
  if (content_hash(code) != header.at("code_hash").get_ref<const std::string&>()) {
    throw CacheError("code checksum differs");
  }
  return code;
}

/// A refused kernel has no threads, because it was never made ready to run.
void require_whole_warps(const KernelBinary& binary) {
  const std::int32_t threads = binary.resources.threads;
  if (binary.refused.empty() && (threads == 0 || threads % kWarp != 0)) {
    throw CacheError(fmt::format("field \"threads\" = {}, must be a positive multiple of 32", threads));
  }
}

KernelBinary binary_of(const json& header) {
  KernelBinary binary;
  header.at("key").get_to(binary.key);
  header.at("spec").get_to(binary.spec);
  header.at("arch").get_to(binary.arch);
  header.at("entry").get_to(binary.entry);
  header.at("compiler").get_to(binary.compiler);
  binary.library = header.value("library", "");
  binary.templates = header.value("templates", "");
  header.at("compile_ms").get_to(binary.compile_ms);
  if (!(binary.compile_ms >= 0 && binary.compile_ms <= kMaxCompileMs)) {
    throw CacheError(
        fmt::format("field \"compile_ms\" = {}, must be 0 to {}", binary.compile_ms, kMaxCompileMs));
  }
  header.at("refused").get_to(binary.refused);
  visit_resources(binary.resources, [&resources = header.at("resources")](
                                        const char* name, std::int32_t& value, std::int32_t most) {
    value = static_cast<std::int32_t>(integer_field(resources, name, 0, most));
  });
  require_whole_warps(binary);
  return binary;
}

}  // namespace

std::vector<std::byte> encode_entry(const KernelBinary& binary) {
  const std::string header = header_of(binary);
  std::string text(kEntryMagic);
  append_u32(text, kFormatVersion);
  append_u32(text, static_cast<std::uint32_t>(header.size()));
  text += header;
  text += content_hash(text);

  std::vector<std::byte> bytes(text.size() + binary.code.size());
  const auto code = std::transform(text.begin(), text.end(), bytes.begin(), [](char c) {
    return static_cast<std::byte>(static_cast<unsigned char>(c));
  });
  std::copy(binary.code.begin(), binary.code.end(), code);
  return bytes;
}

KernelBinary decode_entry(const std::vector<std::byte>& bytes, bool with_code) {
  const std::string_view text = checked_header(text_of(bytes));
  try {
    const json header = parse_json(text);
    const std::size_t offset = kPrefixBytes + text.size() + kHashBytes;
    const std::string_view code = checked_code(text_of(bytes), offset, header);
    KernelBinary binary = binary_of(header);
    if (with_code) binary.code.assign(bytes.end() - static_cast<std::ptrdiff_t>(code.size()), bytes.end());
    return binary;
  } catch (const json::exception& error) {
    throw CacheError(fmt::format("header is not as written: {}", error.what()));
  }
}

}  // namespace fa2
