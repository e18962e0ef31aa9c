// Files that are written from the rows of public structs, for other languages and for readers.
#pragma once

#include <string>
#include <vector>

namespace fa2::test {

/// A block of a hand-written file, between the lines "written: NAME" and "end of NAME".
struct WrittenBlock {
  std::string path, name;
  std::vector<std::string> lines;  ///< without indent; the first mark's is added
};

std::vector<WrittenBlock> written_blocks();

/// Returns the file's text with the block replaced; "" if the file lacks the marks.
std::string with_block(const std::string& text, const WrittenBlock& block);

std::string c_header();       ///< include/fa2/c_call.h
std::string ctypes_module();  ///< bench/c_structs.py
std::string document();       ///< docs/call.md

}  // namespace fa2::test
