#include <parallel/sequence_tables.h>

#include <cstdint>
#include <vector>

namespace fa2 {

SequenceTables::SequenceTables(const RankWork& work, DeviceTables& tables) {
  if (!work.is_packed()) return;
  const auto number = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  std::vector<std::int32_t> queries{0}, keys{0}, pieces;
  for (const LocalSequence& s : work.sequences) {
    queries.push_back(number(s.queries.end));
    keys.push_back(number(s.keys.end));
    pieces.insert(pieces.end(), {number(s.split), number(s.first), number(s.second)});
  }
  cu_seqlens_q_ = tables.add(queries);
  cu_seqlens_k_ = tables.add(keys);
  if (work.problem.query_pieces) pieces_ = tables.add(pieces);
}

void SequenceTables::set(AttentionArgs& args, const RankWork& work, const DeviceTables& tables) const {
  if (cu_seqlens_q_) {
    args.alibi_slopes_per_batch = false;  // tensors have one entry
    args.cu_seqlens_q = tables.at(*cu_seqlens_q_), args.cu_seqlens_k = tables.at(*cu_seqlens_k_);
  }
  if (pieces_)
    args.query_pieces.table = tables.at(*pieces_);
  else
    args.query_pieces = work.pieces();
}

}  // namespace fa2
