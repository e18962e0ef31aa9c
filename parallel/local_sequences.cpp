// Slices cut at documents, then taken in pairs.
#include <parallel/local_sequences.h>

namespace fa2 {

std::vector<LocalSequence> local_sequences(const IntervalPlan& plan, const StreamMask& mask, int rank) {
  const RowsOfSlices &held = plan.held.at(rank), &needed = plan.needed.at(rank);
  std::vector<LocalSequence> sequences;
  Slice open;  // the document of the last sequence, while that has one piece; else empty, as no document is
  for (const Slice& slice : held.slices()) {
    for (const Slice& queries : mask.by_document(slice)) {
      const Slice document = mask.document_of(queries.begin), keys = mask.keys_of(queries);
      const std::int64_t row = held.of(queries.begin), own_key = needed.of(queries.begin);
      const Slice key_rows{needed.of(keys.begin), needed.of(keys.end - 1) + 1};
      if (open == document) {
        LocalSequence& last = sequences.back();
        last.second = own_key - last.keys.begin - (row - last.queries.begin);
        last.queries.end = row + queries.size();
        last.keys.end = key_rows.end;
        open = {};
      } else {
        sequences.push_back(
            {{row, row + queries.size()}, key_rows, queries.size(), own_key - key_rows.begin, 0});
        open = document;
      }
    }
  }
  return sequences;
}

}  // namespace fa2
