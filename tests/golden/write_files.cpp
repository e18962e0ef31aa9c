// All files that rows are written to.
#include <fstream>
#include <sstream>

#include "written_files.h"

namespace fa2::test {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Returns the file's text with the block as it must be; "" without its marks.
std::string with_block(const std::string& text, const WrittenBlock& block) {
  const std::size_t name = text.find(block.begin), end = text.find(block.end);
  if (name == text.npos || end == text.npos) return "";
  const std::size_t begin = text.rfind('\n', name) + 1, first = text.find('\n', name) + 1,
                    last = text.rfind('\n', end) + 1;
  const std::string indent = text.substr(begin, text.find_first_not_of(' ', begin) - begin);
  std::string lines;
  for (const std::string& line : block.lines) lines += (line.empty() ? "" : indent) + line + "\n";
  return text.substr(0, first) + lines + text.substr(last);
}

}  // namespace

std::map<std::string, std::string> written_files(const std::filesystem::path& source) {
  std::map<std::string, std::string> files = rust_files();
  files.insert({{"include/fa2/c_call.h", c_header()},
                {"python/fa2/_c_structs.py", ctypes_module()},
                {"docs/call.md", document()}});
  for (const WrittenBlock& block : written_blocks()) {
    const auto [file, is_first] = files.try_emplace(block.path);
    file->second = with_block(is_first ? text_of(source / block.path) : file->second, block);
  }
  return files;
}

}  // namespace fa2::test
