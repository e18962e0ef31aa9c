// Appends of slices to slots.
#include <parallel/own_rows.h>
#include <parallel/tensor_places.h>
#include <planning/append.h>

#include <utility>

namespace fa2 {
namespace {

std::vector<std::int32_t> int32_table(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

OwnRows::OwnRows(const AttentionProblem& problem, std::int64_t entries, std::int64_t slot_rows,
                 const std::vector<RowCopy>& rows, RowAlignment alignment, const LoadRowKernel& append,
                 DeviceTables& tables) {
  AppendProblem copy;
  copy.dtype = problem.dtype;
  copy.head_dim = problem.head_dim;
  copy.head_dim_v = problem.head_dim_v;
  copy.heads_kv = problem.heads_kv;
  copy.cache_entries = entries;
  copy.cache_rows = slot_rows;
  copy.batch = entries;
  const auto kernel = append(append_kernel({problem, {alignment}}));
  const auto plan = [&] { return std::make_shared<const Plan>(plan_append(copy, kernel)); };
  if (entries > 1 || rows.size() == 1) {
    for (const RowCopy& own : rows) {
      copy.seqlen_new = own.rows;
      const std::vector<std::int64_t> to(static_cast<std::size_t>(entries), own.to);
      copies_.push_back({plan(), copy, own.from, tables.add(int32_table(to))});
    }
    return;
  }
  // Slices are sequences that share one entry.
  std::vector<std::int64_t> borders{0}, to;
  for (const RowCopy& own : rows) borders.push_back(own.from + own.rows), to.push_back(own.to);
  copy.batch = static_cast<std::int64_t>(to.size());
  copy.total_new = borders.back();
  copies_.push_back({plan(), copy, 0, tables.add(int32_table(to)), tables.add(int32_table(borders)),
                     tables.add(std::vector<std::int32_t>(to.size(), 0))});
}

void OwnRows::enqueue(const AttentionArgs& args, std::int64_t entry, std::int64_t head,
                      const KeyValueRows& slot, const DeviceTables& tables, Stream stream) const {
  AppendArgs copy;
  copy.k_new_strides = args.k_strides, copy.v_new_strides = args.v_strides;
  copy.k_cache = slot.k, copy.k_cache_strides = slot.k_strides;
  copy.v_cache = slot.v, copy.v_cache_strides = slot.v_strides;
  for (const Copy& own : copies_) {
    copy.k_new = place_of(args.k, args.k_strides, entry, head, own.from);
    copy.v_new = place_of(args.v, args.v_strides, entry, head, own.from);
    copy.seqlens = tables.at(own.seqlens);
    if (own.borders)
      copy.cu_seqlens_new = tables.at(*own.borders), copy.cache_batch_idx = tables.at(*own.entries);
    launch(*own.plan, copy, operands_of(own.problem, copy), nullptr, stream);
  }
}

}  // namespace fa2
