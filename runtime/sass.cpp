// Instructions of sm_70 to sm_90 have 16 bytes; the lowest 9 bits are the operation.
#include <elf.h>
#include <runtime/sass.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace fa2 {
namespace {

constexpr std::uint64_t kOperation = 0x1ff, kWgmma = 0x1f0, kMoveToUniform = 0x0ca;
constexpr std::size_t kInstructionBytes = 16;

template <class Record>
Record read(std::span<const std::byte> file, std::size_t at) {
  Record record{};
  if (at <= file.size() && sizeof record <= file.size() - at)
    std::memcpy(&record, file.data() + at, sizeof record);
  return record;
}

std::vector<std::uint64_t> operations(std::span<const std::byte> file, const Elf64_Shdr& section) {
  std::vector<std::uint64_t> all;
  if (section.sh_offset >= file.size()) return all;
  const std::size_t bytes = std::min<std::size_t>(section.sh_size, file.size() - section.sh_offset);
  for (std::size_t at = 0; at < bytes; at += kInstructionBytes)
    all.push_back(read<std::uint64_t>(file, section.sh_offset + at) & kOperation);
  return all;
}

int moves_between_mmas(const std::vector<std::uint64_t>& operations) {
  int moves = 0, since_last_mma = 0;
  bool seen = false;
  for (const std::uint64_t operation : operations) {
    if (operation == kWgmma) {
      if (seen) moves += since_last_mma;
      seen = true;
      since_last_mma = 0;
    }
    since_last_mma += operation == kMoveToUniform;
  }
  return moves;
}

}  // namespace

int uniform_moves_between_mmas(std::span<const std::byte> cubin) {
  const auto header = read<Elf64_Ehdr>(cubin, 0);
  int moves = 0;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr));
    if ((section.sh_flags & SHF_EXECINSTR) != 0) moves += moves_between_mmas(operations(cubin, section));
  }
  return moves;
}

}  // namespace fa2
