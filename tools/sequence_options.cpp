// Tables of lengths from .npy files.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/problem_text.h>
#include <tools/npy.h>
#include <tools/sequence_options.h>

#include <utility>

namespace fa2::tools {
namespace {

NpyArray read_table(const std::string& path, const Tensor& tensor) {
  const Form& form = tensor.forms[0];
  const auto rank = static_cast<std::size_t>(form.rank);
  NpyArray array = read_npy(path, {rank, rank}, NpyElements::int32);
  if (array.shape[0] == 0 && form.extents[0].plus > 0)
    throw Error(
        ErrorCode::invalid_request,
        fmt::format("{}: shape = (0,), must be (batch + 1,): where sequences begin, and where the last ends",
                    path));
  return array;
}

}  // namespace

void SequenceOptions::add_to(CLI::App& verb) {
  for (const TableMember& member : kTables) {
    const RowText& row = member.tensor().text;
    const auto set = [this, name = std::string(row.name)](const std::string& path) { files[name] = path; };
    verb.add_option_function<std::string>(flag_of(row.name), set,
                                          fmt::format("{}: a .npy file, int32 {}", row.help, row.shape));
  }
}

SequenceTables SequenceOptions::tables(Mistakes& mistakes) const {
  SequenceTables tables;
  for (const TableMember& member : kTables) {
    const auto file = files.find(member.tensor().text.name);
    if (file == files.end()) continue;
    mistakes.attempt([&] {
      NpyArray array = read_table(file->second, member.tensor());
      if (array.shape.size() == 2) tables.pages_of_row = array.shape[1];
      tables.*member.values = std::get<LengthTable>(std::move(array.values));
    });
  }
  return tables;
}

}  // namespace fa2::tools
