// The append kernel: copies new keys and values into a KV cache, of 16 bits or rounded to 8, and applies rotary embedding to
// keys and queries. With latents of 656 bytes, which K and V share, V is the 8-bit columns and K the rotated ones.
//
// Launch: one thread per eight columns of a row: first all rows of V, then K, then Q.
#pragma once

#include "attention/common/kv_type.cuh"
#include "attention/rows/append_params.cuh"
#include "attention/rows/written_row.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/registers.cuh"

namespace fa2 {

/// A new row of one head.
struct Token {
  int sequence;
  int number;  ///< index in its sequence
  int entry;   ///< batch entry in the source tensor
  int row;     ///< row in that entry
  int head;
};

/// Returns the last sequence that begins at or before `row`.
FA2_DEVICE int sequence_of(const TokenRows& rows, int row) {
  int first = 0, last = rows.batch - 1;
  while (first < last) {
    const int middle = last - (last - first) / 2;
    if (ptx::ld_global_s32(rows.borders + middle) <= row) {
      first = middle;
    } else {
      last = middle - 1;
    }
  }
  return first;
}

/// Finds row number `index` of all heads. Returns false if it belongs to no sequence.
FA2_DEVICE bool find_token(const TokenRows& rows, int index, Token& token) {
  token.head = index % rows.heads;
  const int row = index / rows.heads;
  if (rows.borders == nullptr) {
    token.sequence = token.entry = row / rows.seqlen;
    token.number = token.row = row % rows.seqlen;
    return true;
  }
  token.sequence = sequence_of(rows, row);
  token.entry = 0;
  token.row = row;
  const int* const border = rows.borders + token.sequence;
  const int begin = ptx::ld_global_s32(border);
  token.number = row - begin;
  return begin >= 0 && begin <= row && row < ptx::ld_global_s32(border + 1);
}

/// Finds the rotary position of row `number`. Returns false if the tables do not cover it.
FA2_DEVICE bool find_position(const RotaryTables& tables, int sequence, int number, i64& position) {
  const int first = ptx::ld_global_s32(tables.first + sequence);
  position = static_cast<i64>(first) + number;
  return first >= 0 && position < tables.rows;
}

/// A row of the cache.
struct Slot {
  int entry;
  int row;
};

/// Finds the token's row in the cache. Returns false if there is none.
FA2_DEVICE bool find_slot(const CacheRows& cache, const Token& token, Slot& slot) {
  const int length = ptx::ld_global_s32(cache.seqlens + token.sequence);
  const i64 row = static_cast<i64>(length) + token.number;
  if (length < 0 || row >= cache.capacity) return false;
  const int page = static_cast<int>(row) / cache.entry_rows;
  slot.row = static_cast<int>(row) % cache.entry_rows;
  slot.entry = token.sequence;
  if (cache.page_table != nullptr) {
    slot.entry = ptx::ld_global_s32(cache.page_table + token.sequence * cache.page_table_stride + page);
  } else if (cache.entries != nullptr) {
    slot.entry = ptx::ld_global_s32(cache.entries + token.sequence);
  }
  return slot.entry >= 0 && slot.entry < cache.entry_count;
}

template <class Config>
FA2_DEVICE ptx::Vector8 load_four(const u16* from) {
  if constexpr (Config::rows_are_16_byte_aligned) return ptx::ld_global_v2(from);
  u32 element[4];
  FA2_UNROLL
  for (int i = 0; i < 4; ++i) element[i] = ptx::ld_global_u16(from + i);
  return {element[0] | element[1] << 16, element[2] | element[3] << 16};
}

/// Loads four cosines or sines from `place` on.
template <class Config>
FA2_DEVICE void load_angles(const RotaryTables& tables, const void* table, i64 place, float (&value)[4]) {
  if (tables.are_float32 != 0) {
    const float* const from = static_cast<const float*>(table) + place;
    if constexpr (Config::rows_are_16_byte_aligned) return ptx::ld_global_v4_f32(from, value);
    FA2_UNROLL
    for (int i = 0; i < 4; ++i) value[i] = ptx::ld_global_f32(from + i);
  } else {
    const ptx::Vector8 four = load_four<Config>(static_cast<const u16*>(table) + place);
    FA2_UNROLL
    for (int i = 0; i < 2; ++i) {
      const ptx::Pair pair = ptx::cvt_f32_x2<typename Config::Element>(four.word[i]);
      value[2 * i] = pair.low, value[2 * i + 1] = pair.high;
    }
  }
}

/// Returns the point (x, y) rotated by an angle.
FA2_DEVICE ptx::Pair turned(float x, float y, float cos, float sin) {
  return {ptx::fma_rn(x, cos, -(y * sin)), ptx::fma_rn(x, sin, y * cos)};
}

/// Rotates four pairs of columns: pairs 4 * piece to 4 * piece + 3. `interleaved` says which columns form a
/// pair.
template <class Config, class Row>
FA2_DEVICE void turn_piece(const RotaryTables& tables, i64 position, int piece, const u16* from,
                           const Row& to) {
  using Element = typename Config::Element;
  float cos[4], sin[4];
  load_angles<Config>(tables, tables.cos, position * tables.stride + 4 * piece, cos);
  load_angles<Config>(tables, tables.sin, position * tables.stride + 4 * piece, sin);
  if (tables.interleaved != 0) {
    const ptx::Vector16 chunk = load_chunk<Config>(from + 8 * piece);
    float now[8];
    FA2_UNROLL
    for (int i = 0; i < 4; ++i) {
      const ptx::Pair before = ptx::cvt_f32_x2<Element>(chunk.word[i]);
      const ptx::Pair pair = turned(before.low, before.high, cos[i], sin[i]);
      now[2 * i] = pair.low, now[2 * i + 1] = pair.high;
    }
    return to.store(8 * piece, now);
  }
  const int near = 4 * piece, far = near + tables.dim / 2;
  const ptx::Vector8 x = load_four<Config>(from + near), y = load_four<Config>(from + far);
  float near_now[4], far_now[4];
  FA2_UNROLL
  for (int i = 0; i < 2; ++i) {
    const ptx::Pair xs = ptx::cvt_f32_x2<Element>(x.word[i]), ys = ptx::cvt_f32_x2<Element>(y.word[i]);
    const ptx::Pair first = turned(xs.low, ys.low, cos[2 * i], sin[2 * i]);
    const ptx::Pair second = turned(xs.high, ys.high, cos[2 * i + 1], sin[2 * i + 1]);
    near_now[2 * i] = first.low, near_now[2 * i + 1] = second.low;
    far_now[2 * i] = first.high, far_now[2 * i + 1] = second.high;
  }
  to.store(near, near_now);
  to.store(far, far_now);
}

/// Returns the token's new row.
FA2_DEVICE const u16* new_row(const MovedRows& rows, const Token& token) {
  return static_cast<const u16*>(rows.from) + place_of(rows.from_strides, token.entry, token.head, token.row);
}

/// Copies or rotates eight columns of the token's row.
template <class Config, class Row>
FA2_DEVICE void move_columns(const AppendParams& params, const MovedRows& rows, const Token& token,
                             const Row& to, int chunk, bool turns, i64 position) {
  const u16* const from = new_row(rows, token);
  if (turns && chunk * 8 < params.rotary.dim)
    return turn_piece<Config>(params.rotary, position, chunk, from, to);
  to.copy(chunk * 8, load_chunk<Config>(from + chunk * 8));
}

/// Appends eight columns of a row of K, which turns, or of V. A row whose rotary position does not exist is left out, of V as of K.
template <class Config>
FA2_DEVICE void append_row(const AppendParams& params, const MovedRows& rows, int index, int chunk,
                           bool turns) {
  Token token;
  Slot slot;
  i64 position = 0;
  if (!find_token(params.new_rows, index, token) || !find_slot(params.cache, token, slot)) return;
  if (params.rotary.dim > 0 && !find_position(params.rotary, token.sequence, token.number, position)) return;
  const i64 place = place_of(rows.to_strides, slot.entry, token.head, slot.row);
  if constexpr (are_bytes<Config>) {
    unsigned char* const first = static_cast<unsigned char*>(rows.to) + place;
    if constexpr (!are_latent_rows<Config>) {
      const ByteRow<Config> to{first, factor_of(rows.factors, token.sequence, token.head)};
      move_columns<Config>(params, rows, token, to, chunk, turns, position);
    } else if (turns) {
      const ElementRow<Config> to{reinterpret_cast<u16*>(first) + LatentRow::rotated};
      move_columns<Config>(params, rows, token, to, chunk, turns, position);
    } else {
      LatentCodes<Config>{first}.copy(chunk * 8, load_chunk<Config>(new_row(rows, token) + chunk * 8));
    }
  } else {
    const ElementRow<Config> to{static_cast<u16*>(rows.to) + place};
    move_columns<Config>(params, rows, token, to, chunk, turns, position);
  }
}

/// Rotates eight columns of a row of Q.
template <class Config>
FA2_DEVICE void turn_query(const AppendParams& params, int index, int chunk) {
  Token token;
  i64 position = 0;
  if (!find_token(params.queries, index, token)) return;
  const int number = params.causal_positions != 0 ? token.number : 0;
  if (!find_position(params.rotary, token.sequence, number, position)) return;
  const MovedRows& rows = params.q;
  const ElementRow<Config> to{static_cast<u16*>(rows.to) +
                              place_of(rows.to_strides, token.entry, token.head, token.row)};
  move_columns<Config>(params, rows, token, to, chunk, true, position);
}

/// Runs one thread: eight columns of a row of K, V or Q.
template <class Config>
FA2_DEVICE void append(const AppendParams& params) {
  constexpr int kChunks = Config::head_dim / 8, kChunksOfV = Config::head_dim_v / 8;
  const i64 of_k = static_cast<i64>(params.new_rows.count) * kChunks;
  const i64 of_v = static_cast<i64>(params.new_rows.count) * kChunksOfV;
  const i64 of_q = static_cast<i64>(params.queries.count) * kChunks;
  i64 thread = static_cast<i64>(ptx::block_index()) * (Config::warps * 32) + ptx::thread_index();
  ptx::launch_dependents();
  ptx::wait_for_launches_before();
  if (thread < of_v)
    return append_row<Config>(params, params.v, static_cast<int>(thread / kChunksOfV),
                              static_cast<int>(thread % kChunksOfV), false);
  thread -= of_v;
  if (thread < of_k)
    return append_row<Config>(params, params.k, static_cast<int>(thread / kChunks),
                              static_cast<int>(thread % kChunks), true);
  thread -= of_k;
  if (thread < of_q)
    turn_query<Config>(params, static_cast<int>(thread / kChunks), static_cast<int>(thread % kChunks));
}

}  // namespace fa2
