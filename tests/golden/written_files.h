// The files that rows of public structs are written to, for other languages and for readers.
#pragma once

#include <string>
#include <vector>

namespace fa2::test {

struct WrittenFile {
  std::string path;  ///< from the repository's root
  std::string text;
};

/// Returns all of them, as they must be.
std::vector<WrittenFile> written_files();

std::string c_header();       ///< include/fa2/c_call.h
std::string ctypes_module();  ///< bench/c_structs.py
std::string document();       ///< docs/call.md

}  // namespace fa2::test
