// Reads packs. Nothing in a file is believed before its checksum and its bounds were checked.
#include <core/hash.h>
#include <core/text.h>
#include <fa2/errors.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <runtime/compression.h>
#include <runtime/disk_cache.h>
#include <runtime/log.h>
#include <runtime/pack.h>
#include <runtime/pack_layout.h>
#include <runtime/trust.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace fa2 {
namespace {

namespace fs = std::filesystem;
using namespace pack_layout;

/// Returns the row at `offset` of the index's text.
Pack::Row row_at(std::string_view text, std::size_t offset) {
  Pack::Row row;
  const std::string_view name = text.substr(offset, kNameBytes);
  row.name = name.substr(0, std::min(name.find('\0'), name.size()));
  offset += kNameBytes;
  for (std::uint64_t* field : {&row.offset, &row.stored, &row.size}) {
    *field = number_at(text, offset, sizeof *field);
    offset += sizeof *field;
  }
  row.hash = text.substr(offset, kHashBytes);
  return row;
}

/// Requires rows in order, whose contents fill [begin, end) without gaps. @throws CacheError.
void require_sound(const std::vector<Pack::Row>& rows, std::uint64_t begin, std::uint64_t end) {
  std::string_view before;
  for (const Pack::Row& row : rows) {
    if (row.name <= before)
      throw CacheError(fmt::format("damaged: row \"{}\" is out of order", printable(row.name, kNameBytes)));
    if (row.offset != begin || row.stored > end - begin || row.stored > row.size || row.size > kMaxFileBytes)
      throw CacheError(
          fmt::format("damaged: row \"{}\" has impossible sizes", printable(row.name, kNameBytes)));
    before = row.name;
    begin += row.stored;
  }
  if (begin != end) throw CacheError(fmt::format("{} bytes, expected {}", end, begin));
}

/// Returns the number of rows. Checks the magic and the version first.
std::uint64_t count_in(std::string_view header) {
  if (header.substr(0, kMagic.size()) != kMagic)
    throw CacheError("not a kernel pack: it does not start with FA2PACK");
  const std::uint64_t version = number_at(header, kMagic.size(), 4);
  if (version != kVersion) throw CacheError(fmt::format("format version {}, expected {}", version, kVersion));
  return number_at(header, kMagic.size() + 4, 4);
}

}  // namespace

bool is_pack_name(const fs::path& path) {
  return path.extension() == kPackExtension;
}

std::string pack_name_of(const std::string& arch, const std::string& key) {
  return arch + "/" + key;
}

bool is_kernel_name(const std::string& name) {
  return name.find('/') != std::string::npos;
}

Pack::Pack(fs::path path, FileDescriptor file, std::span<const std::byte> memory)
    : path_(std::move(path)), file_(std::move(file)), memory_(memory), bytes_(memory.size()) {
  if (file_) {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) throw_file_error("cannot stat", path_, errno);
    if (!S_ISREG(status.st_mode)) throw CacheError("not a regular file");
    bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  rows_ = read_index();
}

std::shared_ptr<const Pack> Pack::open(const fs::path& path) {
  FileDescriptor file = open_trusted_file(folder_of(path), path.filename(), O_RDONLY | O_NONBLOCK);
  if (!file) throw_file_error("cannot open", path, ENOENT);
  return std::shared_ptr<const Pack>(new Pack(path, std::move(file), {}));
}

std::shared_ptr<const Pack> Pack::of_memory(const std::string& name, std::span<const std::byte> bytes) {
  return std::shared_ptr<const Pack>(new Pack(name, FileDescriptor(), bytes));
}

std::vector<std::byte> Pack::read(std::uint64_t offset, std::uint64_t size) const {
  const auto truncated = [&] {
    return CacheError(fmt::format("truncated: it ends before byte {}", offset + size));
  };
  if (size > bytes_ || offset > bytes_ - size) throw truncated();
  if (is_embedded()) {
    const auto part = memory_.subspan(offset, size);
    return {part.begin(), part.end()};
  }
  std::vector<std::byte> bytes(size);
  for (std::size_t done = 0; done < size;) {
    const ssize_t got =
        ::pread(file_.get(), bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("cannot read", path_, errno);
    if (got == 0) throw truncated();
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::vector<Pack::Row> Pack::read_index() const {
  const std::vector<std::byte> header = read(0, kHeaderBytes);
  const std::uint64_t count = count_in(text_of(header));
  const std::vector<std::byte> index = read(kHeaderBytes, count * kRowBytes);
  const std::string_view text = text_of(index);
  if (content_hash(std::string(text_of(header).substr(0, kCountedBytes)).append(text)) !=
      text_of(header).substr(kCountedBytes))
    throw CacheError("checksum of the index differs");
  std::vector<Row> rows;
  for (std::size_t i = 0; i < count; ++i) rows.push_back(row_at(text, i * kRowBytes));
  require_sound(rows, kHeaderBytes + index.size(), bytes_);
  return rows;
}

std::vector<std::byte> Pack::contents(const Row& row) const {
  std::vector<std::byte> stored = read(row.offset, row.stored);
  if (content_hash(text_of(stored)) != row.hash) throw CacheError("checksum differs");
  return row.stored == row.size ? stored : decompress(stored, row.size);
}

const Pack::Row* Pack::find(const std::string& name) const {
  const auto row = std::ranges::lower_bound(rows_, name, {}, &Row::name);
  return row != rows_.end() && row->name == name ? &*row : nullptr;
}

KernelBinary Pack::kernel(const Row& row, bool with_code) const {
  KernelBinary binary = decode_entry(contents(row), with_code);
  if (pack_name_of(binary.arch, binary.key) != row.name)
    throw CacheError(fmt::format("it holds kernel {} for {}", binary.key, binary.arch));
  return binary;
}

fs::path Pack::path_of(const std::string& arch, const std::string& key) const {
  return path_ / pack_name_of(arch, key);
}

std::optional<KernelBinary> Pack::load(const std::string& arch, const std::string& key,
                                       std::string* untrusted) const {
  const Row* row = find(pack_name_of(arch, key));
  if (row == nullptr) return std::nullopt;
  if (!is_embedded() && is_forbidden(arch)) {
    const std::string text = fmt::format("pack {} is not used: {}", path_.native(), kForbidden);
    warn_once("trust " + path_.native(), text);
    if (untrusted != nullptr) *untrusted = text;
    return std::nullopt;
  }
  try {
    return kernel(*row, true);
  } catch (const CacheError& error) {
    const std::string place = path_of(arch, key).native();
    warn_once("damage " + place, fmt::format("{} is not used: {}", place, error.what()));
  }
  return std::nullopt;
}

std::vector<CacheEntry> Pack::entries(bool with_code) const {
  std::vector<CacheEntry> entries;
  for (const Row& row : rows_) {
    if (!is_kernel_name(row.name)) continue;
    CacheEntry entry;
    entry.path = path_ / row.name;
    entry.file_bytes = row.stored;
    try {
      entry.binary = kernel(row, with_code);
    } catch (const CacheError& error) {
      entry.damage = error.what();
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string Pack::text(const std::string& name) const {
  const Row* row = find(name);
  if (row == nullptr) return {};
  try {
    const std::vector<std::byte> bytes = contents(*row);
    return std::string(text_of(bytes));
  } catch (const CacheError& error) {
    const std::string place = (path_ / name).native();
    warn_once("damage " + place, fmt::format("{} is not used: {}", place, error.what()));
  }
  return {};
}

}  // namespace fa2
