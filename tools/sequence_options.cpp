// Tables of lengths from .npy files.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <tools/npy.h>
#include <tools/sequence_options.h>

#include <utility>

namespace fa2::tools {
namespace {

/// Returns a file's table; empty if no file is named.
std::vector<std::int32_t> read_table(const std::string& path) {
  if (path.empty()) return {};
  return std::get<std::vector<std::int32_t>>(read_npy(path, {1, 1}, NpyElements::int32).values);
}

std::vector<std::int32_t> read_borders(const std::string& path) {
  std::vector<std::int32_t> borders = read_table(path);
  if (borders.empty() && !path.empty())
    throw Error(
        ErrorCode::invalid_request,
        fmt::format("{}: shape = (0,), must be (batch + 1,): where sequences begin, and where the last ends",
                    path));
  return borders;
}

}  // namespace

void SequenceOptions::add_to(CLI::App& verb) {
  verb.add_option(
      "--cu-seqlens-q", cu_seqlens_q,
      "Packed queries, --q of rank 3: where sequences begin and the last ends, int32 (batch + 1)");
  verb.add_option("--cu-seqlens-k", cu_seqlens_k,
                  "Packed keys and values, --k and --v of rank 3: as --cu-seqlens-q");
  verb.add_option("--seqused-q", seqused_q, "Queries that count, per sequence, int32 (batch)");
  verb.add_option("--seqused-k", seqused_k, "Keys and values that count, per sequence, int32 (batch)");
  verb.add_option("--page-table", page_table,
                  "Pages of each sequence, int32 (batch, pages): --k and --v are then "
                  "(pages, keys per page, heads, dim)");
}

SequenceTables SequenceOptions::tables(Mistakes& mistakes) const {
  SequenceTables tables;
  mistakes.attempt([&] { tables.cu_seqlens_q = read_borders(cu_seqlens_q); });
  mistakes.attempt([&] { tables.cu_seqlens_k = read_borders(cu_seqlens_k); });
  mistakes.attempt([&] { tables.seqused_q = read_table(seqused_q); });
  mistakes.attempt([&] { tables.seqused_k = read_table(seqused_k); });
  mistakes.attempt([&] {
    if (page_table.empty()) return;
    NpyArray pages = read_npy(page_table, {2, 2}, NpyElements::int32);
    tables.pages_of_row = pages.shape[1];
    tables.page_table = std::get<std::vector<std::int32_t>>(std::move(pages.values));
  });
  return tables;
}

}  // namespace fa2::tools
