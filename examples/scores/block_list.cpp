// Lists of key blocks, a list per block of queries: the first block, those around, and random ones, as in BigBird. The mask answers
// the same in each block of 64 x 64, so its map takes one evaluation a row and block.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "functions.h"

namespace example {
namespace {

constexpr int kBlock = 64;

/// Returns the key blocks of one block of queries, of `blocks` in all.
std::vector<std::int32_t> list_of(std::int64_t row, std::int64_t blocks) {
  std::vector<std::int32_t> list;
  const auto add = [&](std::int64_t block) { list.push_back(static_cast<std::int32_t>(block)); };
  add(0);
  for (std::int64_t block = std::max<std::int64_t>(0, row - 1); block <= std::min(row + 1, blocks - 1);
       ++block)
    add(block);
  for (int i = 0; i < 2; ++i)
    add(static_cast<std::int64_t>((random_number(2 * row + i) + 1) / 2 * static_cast<float>(blocks)));
  return list;
}

}  // namespace

Function block_list(const ScoreSizes& sizes) {
  const std::int64_t blocks = (sizes.length + kBlock - 1) / kBlock;
  std::vector<std::int32_t> first{0}, listed;
  for (std::int64_t row = 0; row < blocks; ++row) {
    const std::vector<std::int32_t> list = list_of(row, blocks);
    listed.insert(listed.end(), list.begin(), list.end());
    first.push_back(static_cast<std::int32_t>(listed.size()));
  }
  const auto count = static_cast<std::int64_t>(listed.size());
  return {.name = "block_list",
          .texts = {.mask = "const int row = at.query / 64, block = at.key / 64;\n"
                            "for (int i = first(row); i < first(row + 1); ++i)\n"
                            "  if (listed(i) == block) return true;\n"
                            "return false;",
                    .mask_block = {kBlock, kBlock}},
          .captures = {captured("first", fa2::CaptureType::i32, first, {blocks + 1}),
                       captured("listed", fa2::CaptureType::i32, listed, {count})},
          .host = {.mask = [blocks](const At& at) {
            const std::vector<std::int32_t> list = list_of(at.query / kBlock, blocks);
            return std::ranges::find(list, static_cast<std::int32_t>(at.key / kBlock)) != list.end();
          }}};
}

}  // namespace example
