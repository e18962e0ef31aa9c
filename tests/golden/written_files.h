// The files that rows of public structs are written to, for other languages and for readers.
#pragma once

#include <string>
#include <vector>

namespace fa2::test {

/// Lines of a hand-written file, between the lines with "written: NAME" and "end of NAME".
struct WrittenBlock {
  std::string path, name;
  std::vector<std::string> lines;  ///< without indent, which is that of the first mark
  bool names_variables =
      false;  ///< whether "NAME," becomes "None," if the file gives no variable NAME a value or a type
};

std::vector<WrittenBlock> written_blocks();

/// Returns the file's text with the block as it must be; "" without its marks.
std::string with_block(const std::string& text, const WrittenBlock& block);

std::string c_header();       ///< include/fa2/c_call.h
std::string ctypes_module();  ///< bench/c_structs.py
std::string document();       ///< docs/call.md

}  // namespace fa2::test
