// Collects the contents of packs and writes them.
#include <core/hash.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/compression.h>
#include <runtime/disk_cache.h>
#include <runtime/pack_builder.h>
#include <runtime/pack_layout.h>

#include <algorithm>
#include <utility>

namespace fa2 {
namespace {

using namespace pack_layout;

constexpr unsigned kReadableByAll = 0644;

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

}  // namespace

PackBuilder::Stored PackBuilder::stored_form_of(const std::vector<std::byte>& original) {
  std::vector<std::byte> smaller = compress(original);
  if (smaller.size() < original.size()) return {std::move(smaller), original.size()};
  return {original, original.size()};
}

PackBuilder::Stored PackBuilder::stored_form_of(KernelBinary binary) {
  binary.compile_ms = 0;
  return stored_form_of(encode_entry(binary));
}

bool PackBuilder::store(const KernelBinary& binary) const {
  Stored stored = stored_form_of(binary);
  const std::lock_guard lock(mutex_);
  contents_[pack_name_of(binary.arch, binary.key)] = std::move(stored);
  return true;
}

void PackBuilder::set_text(const std::string& name, const std::string& text) {
  if (name.size() >= kNameBytes)
    throw InvalidRequest({{"name", name, fmt::format("must be shorter than {} bytes", kNameBytes)}});
  const std::lock_guard lock(mutex_);
  contents_.erase(name);
  if (!text.empty()) contents_.emplace(name, stored_form_of(bytes_of(text)));
}

void PackBuilder::add(const KernelStore& store) {
  for (const CacheEntry& entry : store.entries(true)) {
    if (!entry.damage.empty()) throw CacheError(fmt::format("{} is {}", entry.path.native(), entry.damage));
    Stored stored = stored_form_of(entry.binary);
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] =
        contents_.try_emplace(pack_name_of(entry.binary.arch, entry.binary.key), stored);
    if (!is_new && place->second != stored)
      throw CacheError(
          fmt::format("{} differs from the kernel of this name in what was added before: merge what one "
                      "compiler has made",
                      entry.path.native()));
  }
}

std::vector<std::byte> PackBuilder::encode() const {
  const std::lock_guard lock(mutex_);
  std::string header(kMagic), index, body;
  append_number(header, kVersion, 4);
  append_number(header, contents_.size(), 4);
  const std::size_t begin = kHeaderBytes + contents_.size() * kRowBytes;
  for (const auto& [name, stored] : contents_) {
    index += name;
    index.append(kNameBytes - name.size(), '\0');
    for (const std::uint64_t field : {begin + body.size(), std::uint64_t{stored.bytes.size()}, stored.size})
      append_number(index, field, sizeof field);
    index += content_hash(text_of(stored.bytes));
    body += text_of(stored.bytes);
  }
  header += content_hash(header + index);
  return bytes_of(header + index + body);
}

void PackBuilder::write() const {
  const std::vector<std::byte> bytes = encode();
  remove_abandoned_files(path_);
  TemporaryFile file(path_, kReadableByAll);
  file.set_mode(kReadableByAll);
  file.write(bytes.data(), bytes.size());
  file.publish();
}

std::optional<KernelBinary> PackBuilder::load(const std::string& arch, const std::string& key,
                                              std::string*) const {
  const std::lock_guard lock(mutex_);
  const auto found = contents_.find(pack_name_of(arch, key));
  if (found == contents_.end()) return std::nullopt;
  const auto& [bytes, size] = found->second;
  return decode_entry(bytes.size() == size ? bytes : decompress(bytes, size));
}

std::filesystem::path PackBuilder::path_of(const std::string& arch, const std::string& key) const {
  return path_ / pack_name_of(arch, key);
}

std::vector<CacheEntry> PackBuilder::entries(bool with_code) const {
  const std::vector<std::byte> bytes = encode();
  return Pack::of_memory(path_.native(), bytes)->entries(with_code);
}

std::string PackBuilder::text(const std::string& name) const {
  const std::vector<std::byte> bytes = encode();
  return Pack::of_memory(path_.native(), bytes)->text(name);
}

}  // namespace fa2
