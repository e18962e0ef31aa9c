// Counts tiles and words.
#include <core/text_reads.h>
#include <fa2/score_text.h>
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/key_map_layout.h>

namespace fa2 {
namespace {

std::int64_t blocks_for(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

bool has_mask_text(const AttentionProblem& problem) {
  return problem.score_text != 0 && !score_texts(problem.score_text).mask.text.empty();
}

KeyMapLayout key_map_layout(const AttentionProblem& p, const KernelConfig& config) {
  constexpr std::int64_t kBlocksOfWord = 32;
  const MaskReads reads = reads_of_mask(score_texts(p.score_text));
  const bool has_key_rows = key_map_config(config).key_map == kMapOfKeys;
  const HeadPacking packing = head_packing(p, has_key_rows ? 1 : config.tile_m);
  const std::int64_t rows = has_key_rows ? p.seqlen_k : packed_rows(packing, p.seqlen_q),
                     cols = has_key_rows ? p.seqlen_q : p.seqlen_k;
  KeyMapLayout layout;
  layout.blocks = blocks_for(cols, config.tile_n);
  layout.words = blocks_for(layout.blocks, kBlocksOfWord);
  layout.tiles = blocks_for(rows, config.tile_m);
  if (reads.head) layout.heads = has_key_rows ? p.heads_kv : p.heads_q / packing.heads;
  if (reads.batch || p.varlen) layout.batches = p.batch;
  return layout;
}

KernelConfig key_map_config(const KernelConfig& config) {
  KernelConfig made = default_config(KernelId::key_map);
  made.tile_m = config.tile_m, made.tile_n = config.tile_n;
  if (sums_dq(pass_of(config))) made.key_map = kMapOfKeys;
  if (config.kernel == KernelId::key_map) made.key_map = config.key_map;
  return made;
}

}  // namespace fa2
