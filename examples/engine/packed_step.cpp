// Packs a step.
#include "packed_step.h"

#include <algorithm>

namespace example {

PackedStep packed(const Step& step, const TableLayout& layout) {
  PackedStep batch;
  batch.sequences = static_cast<std::int64_t>(step.parts.size());
  batch.tables.resize(static_cast<std::size_t>(layout.size()));
  std::int32_t* const cu_seqlens = batch.tables.data() + layout.cu_seqlens();
  std::int32_t* const before = batch.tables.data() + layout.lengths_before();
  std::int32_t* const after = batch.tables.data() + layout.lengths_after();
  std::int32_t* row = batch.tables.data() + layout.page_table();
  std::int64_t b = 0;
  for (const StepPart& part : step.parts) {
    const Sequence& sequence = *part.sequence;
    const auto first = sequence.tokens.begin() + sequence.cached;
    batch.tokens.insert(batch.tokens.end(), first, first + part.tokens);
    batch.most = std::max(batch.most, part.tokens);
    before[b] = static_cast<std::int32_t>(sequence.cached);
    after[b] = static_cast<std::int32_t>(sequence.cached + part.tokens);
    cu_seqlens[++b] = static_cast<std::int32_t>(batch.tokens.size());
    std::copy(sequence.pages.begin(), sequence.pages.end(), row);
    row += layout.max_pages;
    if (part.samples()) batch.sampled_rows.push_back(static_cast<std::int64_t>(batch.tokens.size()) - 1);
  }
  std::fill(cu_seqlens + b, cu_seqlens + layout.sequences + 1, cu_seqlens[b]);
  return batch;
}

}  // namespace example
