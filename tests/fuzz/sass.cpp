// Cubins, whose instructions are counted.
#include <elf.h>
#include <runtime/sass.h>

#include <cstring>

#include "fuzz.h"

namespace fa2::fuzz {

/// One section of three warpgroup MMAs, with a move to a uniform register before each.
std::vector<std::string> seeds() {
  Elf64_Ehdr header{};
  header.e_shnum = 1;
  header.e_shoff = sizeof header;
  Elf64_Shdr section{};
  section.sh_flags = SHF_EXECINSTR;
  section.sh_offset = sizeof header + sizeof section;
  std::string code;
  for (const char operation : {'\xca', '\xf0', '\xca', '\xf0', '\xca', '\xf0'})
    code += std::string(1, operation) + (operation == '\xf0' ? '\x01' : '\0') + std::string(14, '\0');
  section.sh_size = code.size();
  std::string file(section.sh_offset, '\0');
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, &section, sizeof section);
  return {file + code};
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int moves = fa2::uniform_moves_between_mmas({reinterpret_cast<const std::byte*>(data), size});
  const std::size_t sections = 1 + size / sizeof(Elf64_Shdr) * sizeof(Elf64_Shdr);  // they may overlap
  fa2::fuzz::require(moves >= 0 && static_cast<std::size_t>(moves) <= size * sections,
                     "moves are instructions of the file");
  return 0;
}
