// Writes docs/call.md.
#include "described_structs.h"
#include "written_files.h"

namespace fa2::test {
namespace {

/// Returns the text of a cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string given_by(const Member& member) {
  if (*member.text.option != 0) return member.text.option;
  if (*member.text.shape == 0) return "";
  return member.text.tensor != nullptr ? member.text.tensor : member.text.name;
}

std::string table_of(const DescribedStruct& described) {
  std::string text =
      fmt::format("\n## {} ({})\n| member | C type | Python | default | meaning |\n|---|---|---|---|---|\n",
                  described.name, described.c_name);
  for (std::size_t i = 0; i < described.members.size(); ++i) {
    const Member& member = described.members[i];
    const std::string start = member.is_optional_value     ? "absent"
                              : member.is_pointer          ? "null"
                              : member.type == CType::call ? ""
                                                           : described.defaults[i];
    text += fmt::format("| {} | {} | {} | {} | {} |\n", member.text.name, c_type_text(member),
                        given_by(member), start, cell(comment_of(member)));
  }
  return text;
}

}  // namespace

std::string document() {
  std::string text =
      "# What a call consists of\nEvery member of every public struct of a call, in C++, C and Python. "
      "Written from the rows beside the structs by "
      "`fa2_write_files`: do not edit. The headers in `include/fa2` say more.\n\n"
      "Shapes are in words of the problem. A shape with several forms has the first one whose condition "
      "holds; `if NAME` means that this tensor is "
      "given, or this size known. \"given with X\": while the problem's X is 0 or false, the member must be "
      "as declared.\n";
  for (const DescribedStruct& described : described_structs()) text += table_of(described);
  return text;
}

}  // namespace fa2::test
