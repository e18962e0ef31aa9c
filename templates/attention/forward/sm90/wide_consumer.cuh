// Two consumer warpgroups that share the 64 rows of a tile, because the registers of one cannot hold the output.
//
// The first computes scores and probabilities, and the first columns of O; the second the other columns. Per KV block the
// first sends its probabilities, in 16 bits, and the factors by which it has rescaled rows:
//
//   first    S = Q K^T of n | softmax | O += P V of n, send P | S = Q K^T of n - 1 ...
//   second                    wait              | O += P V of n
//
// In cycles of the tensor cores, for 64 keys at 576 / 512: S 1152, each half of P V 512.
#pragma once

#include "attention/common/dropout.cuh"
#include "attention/common/key_blocks.cuh"
#include "attention/common/key_value_format.cuh"
#include "attention/common/largest_scores.cuh"
#include "attention/common/score_mod.cuh"
#include "attention/common/softmax.cuh"
#include "attention/forward/sm90/consumer.cuh"
#include "attention/forward/sm90/wide_layout.cuh"
#include "tile/wgmma_gemm.cuh"

namespace fa2 {

/// Both consumer warpgroups as a team for splits of a tile.
template <class Config>
struct WideTeam {
  static constexpr int warps = Config::warps, rows = 64, teams = 1, number = 0;
  FA2_DEVICE static void sync() { ptx::bar_sync(1, 32 * warps); }
  FA2_DEVICE static int warp() { return ptx::warp_index() - 4; }
};

/// Messages from the first warpgroup to the second, one at a time.
template <class Config>
struct WideMessages {
  using Layout = WideLayoutSm90<Config>;
  static constexpr int full = 2, empty = 3, threads = 256;  ///< named barriers

  Layout shared;

  /// Sends factors of rows, and probabilities unless there are none.
  template <class Send>
  FA2_DEVICE void send(const float (&factors)[2], const Send& send_probabilities) const {
    ptx::bar_sync(empty, threads);
    send_probabilities();
    const SharedAddress to = shared.factors();  // a shuffle, which all lanes must reach
    if (fragment_col() == 0) ptx::st_shared_v2(to, {{ptx::bits_of(factors[0]), ptx::bits_of(factors[1])}});
    ptx::fence_proxy_async_shared();
    ptx::bar_arrive(full, threads);
  }

  /// Waits for a message, and multiplies the output by its factors.
  template <int kN>
  FA2_DEVICE void receive(AccumulatorTile<1, kN>& output) const {
    ptx::bar_sync(full, threads);
    float factors[2];
    ptx::ld_shared_f32_x2(shared.factors(), factors);
    if (!ptx::vote_any(factors[0] != 1.0f || factors[1] != 1.0f)) return;
    for_each_four(output, [&](float(&four)[4], int) {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) four[i] *= factors[i / 2];
    });
  }
  /// Says that the last message has been read.
  FA2_DEVICE void release() const { ptx::bar_arrive(empty, threads); }
};

/// One of the two warpgroups. `kScores`: the first.
template <class Config, bool kScores>
struct WideConsumer {
  using Layout = WideLayoutSm90<Config>;
  using Row = typename Layout::RowConfig;
  using Rows = typename Layout::Rows;
  using Element = typename Config::Element;
  using State = PipelineState<Config::stages>;
  static constexpr int cols = kScores ? Layout::first_cols : Layout::last_cols;
  static constexpr int first_col = kScores ? 0 : Layout::first_cols;
  static constexpr int steps = Config::tile_n / 16;

  const AttentionParamsSm90& params;
  Layout shared;
  KeyValueReader<Row> ring;
  WideMessages<Config> messages;
  AccumulatorTile<1, cols / 8> output;
  OnlineSoftmax<1, Element> softmax;
  AccumulatorTile<1, Config::tile_n / 8> scores;
  OperandA<1> probabilities[steps];
  LargestScores<Row, 1> largest;

  FA2_DEVICE void run() {
    const AttentionParams& attention = params.attention;
    TileFollower<Row> tiles{params, shared.rows()};
    if constexpr (!kScores) messages.release();
    for (;; tiles.advance()) {
      const SequenceTile tile = tiles.current();
      if (!tile.exist()) break;
      const Mask<Row> mask = mask_of<Row>(attention, tile.shape);
      const int tile_row = tile.at.q_tile * 64;
      const KeyBlocks<Row> blocks = of_part<Row>(key_blocks(mask, tile_row, 64), tile.part);
      const TilePart<Config, WideTeam<Config>> part{attention, params.shares, tile, {}};
      const ScoreMod<Row> score_mod = score_mod_of<Row>(attention, mask.shape, tile.at);
      softmax.start(score_mod.scale_log2());
      output.clear();
      if constexpr (kScores) {
        await_queries(mask.shape, tile.at, tiles.turn);
        attend(tile.at, mask, score_mod, blocks, part.is_first());
      } else {
        follow(blocks);
      }
      dropout_of<Row>(attention).rescale(output);
      descales_of<Row>(attention, tile.at.batch, tile.at.head / attention.queries_per_kv)
          .scale_output(output);
      finish(tile, part);
    }
  }

 private:
  /// Runs lines 6 to 14 of Algorithm 1, and normalizes the output.
  FA2_DEVICE void attend(const TileCoordinates& at, const Mask<Row>& mask, const ScoreMod<Row>& score_mod,
                         const KeyBlocks<Row>& blocks, bool is_first) {
    const AttentionParams& attention = params.attention;
    const int first_row = at.q_tile * 64 + ptx::warp_index() % 4 * 16;
    const Dropout<Row> dropout =
        dropout_of<Row>(attention).of_head(mask.shape, at.batch * attention.heads_q + at.head);
    const Descales<Row> descales = descales_of<Row>(attention, at.batch, at.head / attention.queries_per_kv);
    largest.start();
    for (int n = blocks.end - 1; n >= blocks.begin; --n) {
      const State keys = ring.take(), values = Config::values_in_keys ? keys : ring.take();
      issue_scores(keys);
      ptx::wgmma_wait_group<0>();
      hold(scores);
      if constexpr (!Config::values_in_keys) ring.consumer_release(keys);
      descales.scale_scores(scores);
      score_mod.apply(scores, first_row, n * Config::tile_n);
      score_mod.hide(scores, first_row, n * Config::tile_n, false);
      blocks.hide_keys(mask, scores, first_row, n);
      largest.add(scores);
      const bool rises = softmax.step(scores);
      if (rises) softmax.rescale(output);
      dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, n * Config::tile_n);
      FA2_UNROLL
      for (int k = 0; k < steps; ++k) probabilities[k] = round_to_operand_a<Element>(scores, k);
      issue_values(values);
      send(rises);
      ptx::wgmma_wait_group<0>();
      hold(output);
      ring.consumer_release(values);
    }
    largest.store(params.max_logits, attention, mask.shape, at, first_row, score_mod.scale_log2());
    softmax.normalize(output, Sinks<Row>{attention, at, first_row, is_first});
    messages.send(softmax.correction[0], [] {});
  }

  /// Waits for the tile's queries. Rows that nothing has loaded, or that belong to the next sequence, become zeros: a warp's
  /// decisions for all of its rows would depend on them.
  FA2_DEVICE void await_queries(const SequenceShape& shape, const TileCoordinates& at, const TileTurn& turn) {
    ptx::mbarrier_wait(shared.rows().queries_full(0), turn.parity(1));
    const int own_rows = rows_of_queries<Row>(params.attention, shape, at.q_tile * 64);
    if (own_rows == 64) return;
    clear_rows_outside<128>(shared.rows().queries(0, 0), {0, own_rows}, ptx::thread_index() % 128);
    sync_warpgroup(0);
  }

  /// Sends probabilities, and how rows have been rescaled for them.
  FA2_DEVICE void send(bool rises) const {
    const float factors[2] = {rises ? softmax.correction[0][0] : 1.0f,
                              rises ? softmax.correction[0][1] : 1.0f};
    messages.send(factors, [&] {
      const int row = ptx::warp_index() % 4 * 16;
      FA2_UNROLL
      for (int k = 0; k < steps; ++k)
        ptx::stmatrix_x4(shared.probabilities().template block_address<BlockOrder::down>(row, 16 * k),
                         probabilities[k].pair[0]);
    });
  }

  /// Issues S = Q K^T.
  FA2_DEVICE void issue_scores(State keys) {
    ring.consumer_wait(keys);
    hold(scores);
    ptx::wgmma_fence();
    wgmma_nt<Element>(scores, shared.rows().queries(0, 0), ring.shared.keys(keys.index));
    ptx::wgmma_commit_group();
  }

  /// Issues the first warpgroup's columns of O += P V.
  FA2_DEVICE void issue_values(State values) {
    ring.consumer_wait(values);
    hold(probabilities);
    hold(output);
    ptx::wgmma_fence();
    wgmma_nn<Element>(output, probabilities, ring.shared.values(values.index), first_col);
    ptx::wgmma_commit_group();
  }

  /// Computes the second warpgroup's columns of O, which it normalizes with the first.
  FA2_DEVICE void follow(const KeyBlocks<Row>& blocks) {
    for (int n = blocks.end - 1; n >= blocks.begin; --n) {
      const State keys = ring.take(), values = Config::values_in_keys ? keys : ring.take();
      if constexpr (!Config::values_in_keys) ring.skip(keys);
      ring.consumer_wait(values);
      messages.receive(output);
      hold(output);
      ptx::wgmma_fence();
      wgmma_nn<Element>(output, shared.probabilities(), 0, ring.shared.values(values.index), true, first_col);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>();
      hold(output);
      ring.consumer_release(values);
      messages.release();
    }
    messages.receive(output);
    messages.release();
  }

  /// Stores the tile, or its part, and leaves the memory of its queries to the next.
  template <class Part>
  FA2_DEVICE void finish(const SequenceTile& tile, const Part& part) {
    if constexpr (Config::schedule == kSplitKeys) {
      if (part.is_of_several()) {
        PartRow<Config>::store(
            output, softmax, ptx::warp_index() % 4 * 16, part.row_count(),
            [&](int row) { return part.own_row(row); }, first_col);
        part.team.sync();
        if constexpr (kScores) release_queries();
        return part.merge(shared.rows().all_are_stored(0), softmax.scale_log2);
      }
    }
    const int first_row = tile.at.q_tile * 64 + ptx::warp_index() % 4 * 16;
    if constexpr (kScores) store_lse<Config>(params.attention, tile.shape, tile.at, first_row, softmax);
    if constexpr (Config::float32_out) {
      if constexpr (kScores) {
        sync_warpgroup(0);  // queries have been read
        release_queries();
      }
      store_float_output<Config>(params.attention, tile.shape, tile.at, first_row, output, first_col);
    } else {
      store_output(tile);
    }
  }

  FA2_DEVICE void release_queries() const {
    if (ptx::thread_index() % 128 == 0) ptx::mbarrier_arrive(shared.rows().queries_empty(0));
  }

  /// Stores O through the memory of the queries.
  FA2_DEVICE void store_output(const SequenceTile& tile) const {
    const auto whole = shared.output();
    const int first_row = tile.at.q_tile * 64;
    WideTeam<Config>::sync();  // queries have been read
    stage_output<Element>(
        TileColumns<typename Rows::OutputTile, cols, first_col + cols, true>{whole, first_col}, output);
    ptx::fence_proxy_async_shared();
    WideTeam<Config>::sync();
    if (Config::varlen && first_row + 64 > tile.shape.rows) {
      store_first_rows<Config, 256>(whole, params.attention, tile.shape, tile.at, first_row,
                                    ptx::thread_index() - 128);
      WideTeam<Config>::sync();
    } else if (kScores && ptx::thread_index() % 128 == 0) {
      tma_store_tile<PackedShape<Config::head_dim_v>>(
          params.o, query_box<Row>(params.attention, tile.shape, tile.at, first_row), whole);
      ptx::bulk_wait_group_read<0>();
    }
    if constexpr (kScores) release_queries();
  }
};

}  // namespace fa2
