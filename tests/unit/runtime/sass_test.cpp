// Instructions of a cubin, counted.
#include <doctest/doctest.h>
#include <elf.h>
#include <runtime/sass.h>

#include <cstring>
#include <span>
#include <string>

using namespace fa2;

namespace {

/// Returns an ELF file with one section of code. Each character is an instruction: M a warpgroup MMA, U a move to a
/// uniform register. `claimed`: the size that the section claims, if not its own.
std::string cubin(const std::string& code, Elf64_Xword claimed = 0) {
  Elf64_Ehdr header{};
  header.e_shnum = 1;
  header.e_shoff = sizeof header;
  Elf64_Shdr section{};
  section.sh_flags = SHF_EXECINSTR;
  section.sh_offset = sizeof header + sizeof section;
  section.sh_size = claimed > 0 ? claimed : 16 * code.size();
  std::string file(section.sh_offset, '\0');
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, &section, sizeof section);
  for (const char c : code)
    file += std::string(c == 'M'   ? "\xf0\x01"
                        : c == 'U' ? "\xca"
                                   : "") +
            std::string(c == 'M'   ? 14
                        : c == 'U' ? 15
                                   : 16,
                        '\0');
  return file;
}

int moves(const std::string& file) {
  return uniform_moves_between_mmas({reinterpret_cast<const std::byte*>(file.data()), file.size()});
}

}  // namespace

TEST_CASE("sass: moves to uniform registers count between the first and the last warpgroup MMA") {
  CHECK(moves(cubin("UMU-UMUM-U")) == 3);
  CHECK(moves(cubin("UU")) == 0);
  CHECK(moves("") == 0);
}

TEST_CASE("sass: a section that claims more than the file holds ends with the file") {
  for (const Elf64_Xword claimed : {Elf64_Xword{1} << 40, ~Elf64_Xword{0}})
    CHECK(moves(cubin("MUM", claimed)) == 1);
}
