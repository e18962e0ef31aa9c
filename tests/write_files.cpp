// Writes the files that follow from rows of public structs. It links nothing of fa2, which may not compile before.
#include <cstdio>
#include <fstream>

#include "golden/written_files.h"

int main() {
  int status = 0;
  for (const auto& [path, text] : fa2::test::written_files(FA2_SOURCE_DIR)) {
    if (text.empty()) {
      std::fprintf(stderr, "%s: no marks, must have those of its blocks\n", path.c_str());
      status = 1;
    } else {
      std::ofstream(std::filesystem::path(FA2_SOURCE_DIR) / path) << text;
    }
  }
  return status;
}
