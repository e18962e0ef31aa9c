// A call of append() with memory of its own, and what must be in it afterwards.
#pragma once

#include <fa2/append.h>
#include <operation/rules/check_append.h>
#include <reference/append.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gpu_attention.h"

namespace fa2::test {

/// How the tensors of a call lie.
struct AppendMemory {
  bool heads_first = false;    ///< the cache is (entry, head, row, column); else (entry, row, head, column)
  bool shared_buffer = false;  ///< each entry of K's is followed by that of V's
  int shift = 0;               ///< elements before each tensor: rows of 1 are aligned to one element alone
  bool in_place = false;       ///< Q turns where it is
};

/// NaN lies wherever nothing may be read: around the tensors, in rows of no sequence, in angles of no row, in Q's output; a
/// pattern in the cache. Tables have wrong numbers where none may be read.
class AppendCall {
 public:
  /// `tables`: with whole rows of the page table.
  AppendCall(const AppendProblem& problem, const AppendTables& tables, const AppendMemory& memory = {});

  AppendProblem problem;
  AppendArgs args;

  /// What is not as the reference has it, bit for bit but for columns that turn; empty if all is. Those are rounded once.
  std::string wrong() const;
  /// Whether nothing was written.
  bool is_untouched() const;

 private:
  using Image = std::vector<std::uint16_t>;
  /// The columns that an image's rows have after the call.
  struct Expected;

  void make_layouts(const AppendMemory& memory);
  void upload_rows(const AppendMemory& memory);
  void upload_angles(int shift);
  void upload_tables();
  void expect_row(Expected& expected, const Image& from, std::int64_t from_offset, std::int64_t to_offset,
                  std::int64_t position, std::int64_t columns, bool turns) const;

  AppendTables tables_;
  std::vector<reference::MovedRow> appended_, queries_;
  Layout k_new_, v_new_, k_cache_, v_cache_, q_, q_out_;
  Image k_image_, v_image_, cache_image_, q_image_, q_out_image_;
  std::vector<float> cos_values_, sin_values_;  ///< (table_rows, rotary_dim / 2), as the device has them
  DeviceBuffer k_{0}, v_{0}, cache_{0}, q_memory_{0}, q_out_memory_{0}, cos_{0}, sin_{0}, numbers_{0};
};

}  // namespace fa2::test
