// Training of block diffusion: the first half of a sequence is noisy, the second half clean. A noisy block sees itself and the clean
// blocks before it, a clean block the clean ones up to itself.
#include "functions.h"

namespace example {

Function block_diffusion(const ScoreSizes& sizes) {
  constexpr std::int64_t kBlock = 16;
  const std::int64_t half = sizes.length / 2;
  return {
      .name = "block_diffusion",
      .texts = {.mask = "const int half = at.keys / 2;\n"
                        "const bool is_clean_query = at.query >= half, is_clean_key = at.key >= half;\n"
                        "const int query_block = (is_clean_query ? at.query - half : at.query) / block();\n"
                        "const int key_block = (is_clean_key ? at.key - half : at.key) / block();\n"
                        "if (is_clean_key) return key_block < query_block + is_clean_query;\n"
                        "return !is_clean_query && key_block == query_block;"},
      .captures = {captured("block", kBlock)},
      .host = {.mask = [half](const At& at) {
        const std::int64_t query = at.query % half / kBlock, key = at.key % half / kBlock;
        if (at.query < half) return at.key < half ? query == key : key < query;
        return at.key >= half && key <= query;
      }}};
}

}  // namespace example
