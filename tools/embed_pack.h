// A kernel pack as C source or as an object file, to be linked into a program.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace fa2::tools {

/// Returns a source file, valid in C99 and in C++, that holds the pack and adds it by fa2_pack_add() before main(). It needs
/// no header of fa2. `name` stands for the pack in messages.
std::string embedding_source(std::span<const std::byte> pack, const std::string& name);

/// Compiles embedding_source() to an object file with the C compiler `compiler`. @throws Error with the compiler's status.
void write_object(const std::filesystem::path& object, const std::string& source,
                  const std::string& compiler);

}  // namespace fa2::tools
