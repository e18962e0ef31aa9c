// The engine's packed steps: tokens, and tables in which the sequences after the step's are empty.
#include <doctest/doctest.h>
#include <examples/engine/packed_step.h>

#include <cstdint>
#include <utility>
#include <vector>

using namespace example;

namespace {

using Table = std::vector<std::int32_t>;

Sequence sequence(Tokens tokens, std::int64_t cached, Table pages) {
  Sequence result({.id = 0, .prompt = std::move(tokens), .new_tokens = 9});
  result.cached = cached;
  result.pages = std::move(pages);
  return result;
}

Table part(const PackedStep& batch, std::int64_t begin, std::int64_t count) {
  return {batch.tables.begin() + begin, batch.tables.begin() + begin + count};
}

}  // namespace

TEST_CASE("packed step: a decoding sequence and chunks of two prompts, in tables for five sequences") {
  const TableLayout layout{.sequences = 5, .max_pages = 3};
  Sequence decoding = sequence({1, 2, 3, 4, 5}, 4, {7, 2, 9});
  Sequence begun = sequence({10, 11, 12, 13, 14}, 2, {4, 0});
  Sequence fresh = sequence({20, 21}, 0, {5});
  Step step;
  step.parts = {{&decoding, 1}, {&begun, 2}, {&fresh, 2}};
  const PackedStep batch = packed(step, layout);
  CHECK(batch.tokens == Tokens{5, 12, 13, 20, 21});
  CHECK(batch.sampled_rows == std::vector<std::int64_t>{0, 4});  // `begun` has a token left
  CHECK(batch.sequences == 3);
  CHECK(batch.most == 2);
  CHECK(static_cast<std::int64_t>(batch.tables.size()) == layout.size());
  CHECK(part(batch, layout.cu_seqlens(), 6) == Table{0, 1, 3, 5, 5, 5});
  CHECK(part(batch, layout.lengths_before(), 5) == Table{4, 2, 0, 0, 0});
  CHECK(part(batch, layout.lengths_after(), 5) == Table{5, 4, 2, 0, 0});
  CHECK(part(batch, layout.page_table(), 9) == Table{7, 2, 9, 4, 0, 0, 5, 0, 0});
}

TEST_CASE("packed step: a step without parts has no tokens in any sequence") {
  const TableLayout layout{.sequences = 2, .max_pages = 1};
  const PackedStep batch = packed(Step{}, layout);
  CHECK(batch.tokens.empty());
  CHECK(batch.tables == Table(static_cast<std::size_t>(layout.size())));
}
