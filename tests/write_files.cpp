// Writes the files that rows of public structs are written to, as the golden suite does. Links nothing of the library, which does
// not compile while they differ from the rows.
#include <fstream>
#include <iostream>
#include <sstream>

#include "golden/written_files.h"

namespace {

std::string path_of(const std::string& name) {
  return std::string(FA2_SOURCE_DIR) + "/" + name;
}

void write(const std::string& name, const std::string& text) {
  std::ofstream(path_of(name)) << text;
  std::cout << name << "\n";
}

}  // namespace

int main() {
  using namespace fa2::test;
  write("include/fa2/c_call.h", c_header());
  write("bench/c_structs.py", ctypes_module());
  write("docs/call.md", document());
  for (const WrittenBlock& block : written_blocks()) {
    std::ostringstream text;
    text << std::ifstream(path_of(block.path)).rdbuf();
    write(block.path, with_block(text.str(), block));
  }
}
