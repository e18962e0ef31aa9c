// The kernel that adds float32 gradients, in the order of the parts, and rounds the sums once, or not at all: dK and dV of several ranks, or dQ
// over the keys of several.
//
// Launch: one thread per eight columns of a row of dK and dV.
#pragma once

#include "attention/rows/row_chunks.cuh"
#include "attention/rows/sum_params.cuh"

namespace fa2 {

/// Eight columns of a row: of dK of all heads, then of dV.
struct SummedRow {
  int entry;
  int row;
  int chunk;
};

template <class Config>
FA2_DEVICE void add_eight(float (&sum)[8], const float* from) {
  float value[8];
  load_eight<Config>(from, value);
  FA2_UNROLL
  for (int i = 0; i < 8; ++i) sum[i] += value[i];
}

/// Returns the sum of the parts' rows. Part 0 has every row.
template <class Config>
FA2_DEVICE void sum_row(const SumParams& params, const SummedRow& at, int chunks, float (&sum)[8]) {
  const i64 entry = at.entry;
  const int* const rows = params.table + at.row;
  const auto place = [&](i64 row) { return (row * chunks + at.chunk) * 8; };
  load_eight<Config>(params.own + place(entry * params.own_rows + ptx::ld_global_s32(rows)), sum);
  for (int part = 1; part < params.parts; ++part) {
    const int row = ptx::ld_global_s32(rows + static_cast<i64>(part) * params.rows);
    if (row >= 0) add_eight<Config>(sum, params.arrivals + place(entry * params.arrival_rows + row));
  }
}

/// Runs one thread.
template <class Config>
FA2_DEVICE void sum_parts(const SumParams& params) {
  constexpr int kKeyChunks = Config::head_dim / 8, kValueChunks = Config::head_dim_v / 8;
  const int of_keys = params.heads * kKeyChunks, chunks = of_keys + params.heads_v * kValueChunks;
  const i64 thread = static_cast<i64>(ptx::block_index()) * (Config::warps * 32) + ptx::thread_index();
  const i64 number = thread / chunks;
  if (number >= static_cast<i64>(params.entries) * params.rows) return;
  const SummedRow at{static_cast<int>(number / params.rows), static_cast<int>(number % params.rows),
                     static_cast<int>(thread % chunks)};
  float sum[8];
  sum_row<Config>(params, at, chunks, sum);
  const auto store = [&](void* gradient, const Strides& strides, int chunk, int chunks_of_head) {
    const i64 place =
        place_of(strides, at.entry, chunk / chunks_of_head, at.row) + chunk % chunks_of_head * 8;
    if (params.float32_sums != 0)
      store_eight(static_cast<float*>(gradient) + place, sum);
    else
      store_eight<Config>(static_cast<u16*>(gradient) + place, sum);
  };
  if (at.chunk < of_keys) return store(params.dk, params.dk_strides, at.chunk, kKeyChunks);
  store(params.dv, params.dv_strides, at.chunk - of_keys, kValueChunks);
}

}  // namespace fa2
