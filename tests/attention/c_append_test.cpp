// fa2_append() does what append() does, and reports every mistake of a call.
#include <doctest/doctest.h>
#include <fa2/c_append.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>

#include "../support/append_call.h"

using namespace fa2;
using namespace fa2::test;

namespace {

fa2_tensor tensor(const void* data, const TensorStrides& strides) {
  return {const_cast<void*>(data), {strides.batch, strides.head, strides.row}};
}

fa2_append_problem in_c(const AppendProblem& p) {
  fa2_append_problem c = FA2_APPEND_PROBLEM_INIT;
  c.dtype = static_cast<std::int32_t>(p.dtype);
  c.head_dim = p.head_dim, c.head_dim_v = p.head_dim_v;
  c.rotary_dim = p.rotary_dim, c.rotary_style = static_cast<std::int32_t>(p.rotary_style);
  c.float32_tables = p.float32_tables, c.causal_positions = p.causal_positions;
  c.table_rows = p.table_rows, c.batch = p.batch, c.heads_q = p.heads_q, c.heads_kv = p.heads_kv;
  c.seqlen_q = p.seqlen_q, c.seqlen_new = p.seqlen_new, c.total_q = p.total_q, c.total_new = p.total_new;
  c.page_size = p.page_size, c.cache_entries = p.cache_entries;
  c.cache_rows = p.cache_rows, c.max_pages = p.max_pages;
  return c;
}

fa2_append_args in_c(const AppendArgs& args) {
  fa2_append_args c = FA2_APPEND_ARGS_INIT;
  c.k_new = tensor(args.k_new, args.k_new_strides), c.v_new = tensor(args.v_new, args.v_new_strides);
  c.k_cache = tensor(args.k_cache, args.k_cache_strides),
  c.v_cache = tensor(args.v_cache, args.v_cache_strides);
  c.seqlens = args.seqlens, c.cache_batch_idx = args.cache_batch_idx;
  c.page_table = args.page_table, c.page_table_stride = args.page_table_stride;
  c.cu_seqlens_new = args.cu_seqlens_new, c.cu_seqlens_q = args.cu_seqlens_q;
  c.cos = args.cos, c.sin = args.sin, c.table_stride = args.table_stride;
  c.rotary_seqlens = args.rotary_seqlens;
  c.q = tensor(args.q, args.q_strides), c.q_out = tensor(args.q_out, args.q_out_strides);
  return c;
}

void expect_appended(const AppendProblem& problem, const AppendTables& tables) {
  const AppendCall call(problem, tables);
  const fa2_append_problem what = in_c(call.problem);
  const fa2_append_args with = in_c(call.args);
  REQUIRE_MESSAGE(fa2_append(nullptr, &what, &with, nullptr) == FA2_OK, fa2_last_error());
  CHECK(call.wrong() == "");
}

bool says(const std::string& part) {
  CAPTURE(fa2_last_error());
  return std::string(fa2_last_error()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("c append: into entries and into pages, with Q and without") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  expect_appended({.head_dim = 64,
                   .head_dim_v = 40,
                   .rotary_dim = 32,
                   .rotary_style = RotaryStyle::interleaved,
                   .float32_tables = true,
                   .table_rows = 40,
                   .causal_positions = false,
                   .batch = 2,
                   .heads_q = 4,
                   .heads_kv = 2,
                   .seqlen_q = 3,
                   .seqlen_new = 2,
                   .cache_entries = 3,
                   .cache_rows = 20},
                  {.seqlens = {5, 0}, .rotary_seqlens = {7, 1}, .cache_batch_idx = {2, 0}});
  expect_appended({.dtype = DType::bf16,
                   .head_dim = 64,
                   .batch = 2,
                   .heads_kv = 2,
                   .total_new = 5,
                   .page_size = 4,
                   .cache_entries = 6,
                   .max_pages = 3},
                  {.seqlens = {3, 6}, .cu_seqlens_new = {0, 2, 5}, .page_table = {{4, 1, 0}, {2, 5, 3}}});
}

TEST_CASE("c append: one message lists all mistakes of a call") {
  CHECK(fa2_append(nullptr, nullptr, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problem = NULL"));
  CHECK(says("args = NULL"));
  fa2_append_problem problem = FA2_APPEND_PROBLEM_INIT;
  fa2_append_args args = FA2_APPEND_ARGS_INIT;
  problem.dtype = 7, problem.rotary_style = 2, args.reserved = 1;
  CHECK(fa2_append(nullptr, &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  for (const char* const part : {"dtype = 7", "rotary_style = 2", "reserved = 1"}) CHECK(says(part));
  problem = FA2_APPEND_PROBLEM_INIT;
  problem.struct_size = 100, args.struct_size = 279;
  CHECK(fa2_append(nullptr, &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problem = a struct with struct_size 100, must have " + std::to_string(sizeof problem) + ", "));
  CHECK(says("args = a struct with struct_size 279, must have " + std::to_string(sizeof args) + ", "));
}
