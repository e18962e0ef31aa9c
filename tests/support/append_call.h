// A call of append() with its own memory, and the expected contents of this memory.
#pragma once

#include <fa2/append.h>
#include <fa2/attention.h>
#include <operation/rules/check_append.h>
#include <reference/append.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "gpu_attention.h"

namespace fa2::test {

/// What the factors of an 8-bit cache are: null; one for all, with strides of 0; or one per sequence and head, with gaps.
enum class Factors : std::uint8_t { none, shared, each };

/// How a call's tensors lie in memory, and what they hold.
struct AppendMemory {
  bool heads_first = false;    ///< the cache is (entry, head, row, column); else (entry, row, head, column)
  bool shared_buffer = false;  ///< each entry of K is followed by the same entry of V
  bool shared_rows = false;    ///< each row of V is followed by the same row of K, as in latents
  /// Elements before each tensor, except for an 8-bit cache; with 1, rows are aligned to one element only.
  int shift = 0;
  bool in_place = false;  ///< Q is rotated in place
  Factors factors = Factors::none;
  bool extremes = false;  ///< every third new element is NaN, infinite, near 448 or beyond, tiny, or a tie
};

/// Memory that the kernel may not read holds NaN: around the tensors, in rows of no sequence, in unused
/// rotary angles, in Q's output. The cache holds a pattern. Table entries that the kernel may not read are
/// invalid.
class AppendCall {
 public:
  /// `tables` must have whole rows of the page table.
  AppendCall(const AppendProblem& problem, const AppendTables& tables, const AppendMemory& memory = {});

  AppendProblem problem;
  AppendArgs args;

  /// Returns the difference from the reference; empty if there is none. Rotated columns may differ by one
  /// rounding; all others, and all codes of an 8-bit cache, must have the same bits.
  std::string wrong() const;
  /// Returns whether nothing was written.
  bool is_untouched() const;

 private:
  /// A word for each element.
  using Image = std::vector<std::uint16_t>;
  /// The expected columns of an image's rows after the call.
  struct Expected;

  void make_layouts(const AppendMemory& memory);
  void upload_rows(const AppendMemory& memory);
  void upload_angles(int shift);
  void upload_tables();
  void upload_factors(Factors factors);
  /// Returns the elements of the cache's memory on the device.
  Image cache_now() const;
  /// Returns a new row as the kernel computes it in float32, before it rounds.
  std::vector<float> row_in_float32(const Image& from, std::int64_t offset, std::int64_t position,
                                    std::int64_t columns, bool turns) const;
  void expect_cached(Expected& expected, const reference::MovedRow& row, std::int64_t head,
                     bool is_key) const;
  void expect_row(Expected& expected, const Image& from, std::int64_t from_offset, std::int64_t to_offset,
                  std::int64_t position, std::int64_t columns, bool turns) const;

  AppendTables tables_;
  std::vector<reference::MovedRow> appended_, queries_;
  Layout k_new_, v_new_, k_cache_, v_cache_, q_, q_out_;
  Image k_image_, v_image_, cache_image_, q_image_, q_out_image_;
  std::vector<float> cos_values_, sin_values_;  ///< (table_rows, rotary_dim / 2), as on the device
  std::vector<float> factor_image_;             ///< of keys, then of values
  DeviceBuffer k_{0}, v_{0}, cache_{0}, q_memory_{0}, q_out_memory_{0}, cos_{0}, sin_{0}, numbers_{0},
      factors_{0};
};

/// Returns three new rows each of three sequences, over a cache of 12 rows, with 16 columns, which are all rotated.
AppendProblem small_append();

/// Appends, and CHECKs the contents of memory.
void append_and_expect(Context& context, const AppendCall& call);

struct RotatedDims {
  std::int32_t qk, v, rotary;
};
/// Calls run(problem, number), numbers from 1 on, for `problem` with either style of rotation, tables of either type and all of
/// `dims`, in turn with either dtype and 1 to 3 queries.
void each_rotation(AppendProblem problem, std::initializer_list<RotatedDims> dims,
                   const std::function<void(const AppendProblem& problem, int number)>& run);

}  // namespace fa2::test
