// Files that are written from the rows of public structs, for other languages and for readers.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace fa2::test {

/// Lines of a hand-written file, between the lines that hold `begin` and `end`.
struct WrittenBlock {
  std::string path, begin, end;
  std::vector<std::string> lines;  ///< without indent, which is that of the first mark
};

std::vector<WrittenBlock> written_blocks();

std::string c_header();       ///< include/fa2/c_call.h
std::string ctypes_module();  ///< python/fa2/_c_structs.py
std::string document();       ///< docs/call.md

/// Returns the files of the Rust crate: C structs, and the safe structs of each operation.
std::map<std::string, std::string> rust_files();

/// Returns the text that each file must have, by paths below `source`; "" for one without the marks of its blocks.
std::map<std::string, std::string> written_files(const std::filesystem::path& source);

}  // namespace fa2::test
