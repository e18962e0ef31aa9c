// The rules, the operands and the kernel of append().
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <generator/key_value_format.h>
#include <operation/rules/validate.h>
#include <planning/append.h>
#include <planning/row_kernels.h>
#include <planning/step_request.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

namespace fa2 {
namespace {

using Extents = std::array<std::int64_t, 4>;

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

/// Returns the extents of k_new or v_new.
Extents new_extents(const AppendProblem& p, std::int32_t dim) {
  if (p.total_new > 0) return {1, p.heads_kv, p.total_new, dim};
  return {p.batch, p.heads_kv, p.seqlen_new, dim};
}

Extents query_extents(const AppendProblem& p) {
  if (p.total_q > 0) return {1, p.heads_q, p.total_q, p.head_dim};
  return {p.batch, p.heads_q, p.seqlen_q, p.head_dim};
}

bool is_same(const TensorStrides& a, const TensorStrides& b) {
  return a.batch == b.batch && a.head == b.head && a.row == b.row;
}

/// Returns a table that the call must have if and only if the problem uses it.
Operand table(std::string_view name, const std::int32_t* data, bool is_used, std::int64_t count) {
  return {.name = name, .element = ElementType::i32, .data = data, .extents = {is_used, 1, 1, count}};
}

Operand optional_table(std::string_view name, const std::int32_t* data, bool is_used, std::int64_t count) {
  return optional_operand(name, Access::read, data, ElementType::i32, {is_used, 1, 1, count});
}

void add_tables(std::vector<Operand>& operands, const AppendProblem& p, const AppendArgs& args) {
  const bool has_pages = p.page_size > 0, turns = p.rotary_dim > 0;
  const Operand tables[] = {
      table("seqlens", args.seqlens, true, p.batch),
      optional_table("cache_batch_idx", args.cache_batch_idx, !has_pages, p.batch),
      strided_operand("page_table", Access::read, args.page_table, ElementType::i32,
                      {has_pages, 1, p.batch, p.max_pages}, {0, 0, args.page_table_stride}),
      table("cu_seqlens_new", args.cu_seqlens_new, p.total_new > 0, p.batch + 1),
      table("cu_seqlens_q", args.cu_seqlens_q, p.heads_q > 0 && p.total_q > 0, p.batch + 1),
      optional_table("rotary_seqlens", args.rotary_seqlens, turns, p.batch),
  };
  operands.insert(operands.end(), std::begin(tables), std::end(tables));
}

/// Returns k_cache or v_cache, whose rows a kernel writes in pieces if they have 8-bit elements.
Operand cache(std::string_view name, void* data, const AppendProblem& p, std::int32_t dim,
              const TensorStrides& strides) {
  Operand operand = strided_operand(name, Access::write, data, key_value_format(p).element,
                                    {p.cache_entries, p.heads_kv, entry_rows_of(p), dim}, strides);
  if (operand.element == ElementType::e4m3) operand.alignment = 16;
  return operand;
}

/// Returns k_descale or v_descale.
Operand factors(std::string_view name, const float* data, const AppendProblem& p,
                const TensorStrides& strides) {
  Operand operand = strided_operand(name, Access::read, data, ElementType::f32,
                                    {p.kv_type == KvType::e4m3 ? p.batch : 0, p.heads_kv, 1, 1}, strides);
  operand.optional = true;
  operand.has_rows = false;
  return operand;
}

/// Checks each size of a problem by itself.
void check_sizes(Violations& found, const AppendProblem& p) {
  const auto expect = [&](const char* name, std::int64_t value, std::int64_t least, const char* rule) {
    if (value < least || value > kMost) found.push_back({name, fmt::format("{}", value), rule});
  };
  const char* const any = "must be 0..2147483647";
  const char* const some = "must be 1..2147483647";
  const bool has_pages = p.page_size != 0, turns = p.rotary_dim != 0;
  expect("table_rows", p.table_rows, turns, turns ? "must be 1..2147483647 with rotary_dim" : any);
  expect("batch", p.batch, 0, any);
  expect("heads_q", p.heads_q, 0, any);
  expect("heads_kv", p.heads_kv, 1, some);
  expect("total_q", p.total_q, 0, any);
  expect("total_new", p.total_new, 0, any);
  if (p.heads_q > 0 && p.total_q == 0) expect("seqlen_q", p.seqlen_q, 1, some);
  if (p.total_new == 0) expect("seqlen_new", p.seqlen_new, 1, some);
  expect("page_size", p.page_size, 0, any);
  expect("cache_entries", p.cache_entries, 1, some);
  if (!has_pages) expect("cache_rows", p.cache_rows, 1, "must be 1..2147483647 without pages");
  if (has_pages) expect("max_pages", p.max_pages, 1, "must be 1..2147483647 with pages");
}

void check_columns(Violations& found, const AppendProblem& p) {
  const auto expect = [&](bool holds, const char* name, std::int64_t value, const char* rule) {
    if (!holds) found.push_back({name, fmt::format("{}", value), rule});
  };
  check_key_value_format(found, p);
  if (p.kv_type == KvType::scaled)
    found.push_back(
        {"kv_type", "scaled", "must be same, e4m3 or ds_mla: rows of 16 bits are copied as they are"});
  check_latent_rows(found, p, LatentRow::rotated_cols);
  expect(p.rotary_dim >= 0 && p.rotary_dim % 8 == 0, "rotary_dim", p.rotary_dim,
         "must be a multiple of 8, or 0 for none");
  expect(p.rotary_dim <= p.head_dim, "rotary_dim", p.rotary_dim, "must be at most head_dim");
  expect(p.rotary_dim != 0 || p.heads_q == 0, "heads_q", p.heads_q,
         "must be 0 without rotary_dim: nothing is done to Q");
}

/// Checks the products that the kernel counts in 32 bits. Each size must be valid by itself.
void check_products(Violations& found, const AppendProblem& p) {
  const auto expect = [&](const char* names, std::int64_t a, std::int64_t b, const char* why) {
    if (a > kMost || a * b > kMost)
      found.push_back(
          {names, fmt::format("{} * {}", a, b), fmt::format("must be at most 2147483647{}", why)});
  };
  expect("rows of K * heads_kv", new_rows_of(p), p.heads_kv, "");
  if (p.heads_q > 0) expect("rows of Q * heads_q", queries_of(p), p.heads_q, "");
  if (p.page_size > 0)
    expect("page_size * max_pages", p.page_size, p.max_pages,
           ": lengths are of 32 bits; give fewer max_pages");
}

}  // namespace

bool operator==(const AppendProblem&, const AppendProblem&) = default;

bool is_empty(const AppendProblem& p) {
  return p.batch == 0;
}

std::int32_t value_dim_of(const AppendProblem& p) {
  return p.head_dim_v == 0 ? p.head_dim : p.head_dim_v;
}

std::int64_t entry_rows_of(const AppendProblem& p) {
  return p.page_size > 0 ? p.page_size : p.cache_rows;
}

std::int64_t new_rows_of(const AppendProblem& p) {
  return p.total_new > 0 ? p.total_new : p.batch * p.seqlen_new;
}

std::int64_t queries_of(const AppendProblem& p) {
  if (p.heads_q == 0) return 0;
  return p.total_q > 0 ? p.total_q : p.batch * p.seqlen_q;
}

std::int64_t capacity_of(const AppendProblem& p) {
  return p.page_size > 0 ? p.page_size * p.max_pages : p.cache_rows;
}

Violations violations_of(const AppendProblem& p) {
  Violations found;
  check_enums(found, p);
  check_columns(found, p);
  check_sizes(found, p);
  if (found.empty()) check_products(found, p);
  return found;
}

Violations violations_of(const AppendProblem& p, const AppendArgs& args, OperandList operands) {
  Violations found = violations_of_operands(operands);
  const auto expect_null = [&](const char* name, const void* data, bool is_used, const char* of) {
    if (data != nullptr && !is_used)
      found.push_back({name, fmt::format("{}", data), fmt::format("must be null without {}", of)});
  };
  const bool turns = p.rotary_dim > 0;
  for (const auto& [name, data] : {std::pair{"k_descale", args.k_descale}, {"v_descale", args.v_descale}})
    if (data != nullptr && p.kv_type != KvType::e4m3)
      found.push_back({name, "given", "must be null, or the problem's kv_type e4m3"});
  if (p.kv_type == KvType::ds_mla &&
      (args.v_cache != args.k_cache || !is_same(args.v_cache_strides, args.k_cache_strides)))
    found.push_back({"v_cache", "other memory than k_cache",
                     "must be k_cache, with its strides, with kv_type ds_mla: its rows hold both"});
  expect_null("page_table", args.page_table, p.page_size > 0, "page_size");
  expect_null("cu_seqlens_new", args.cu_seqlens_new, p.total_new > 0, "total_new");
  expect_null("cu_seqlens_q", args.cu_seqlens_q, p.heads_q > 0 && p.total_q > 0, "heads_q and total_q");
  expect_null("cos", args.cos, turns, "rotary_dim");
  expect_null("sin", args.sin, turns, "rotary_dim");
  expect_null("rotary_seqlens", args.rotary_seqlens, turns, "rotary_dim");
  expect_null("q", args.q, p.heads_q > 0, "heads_q");
  expect_null("q_out", args.q_out, p.heads_q > 0, "heads_q");
  if (p.page_size > 0 && args.cache_batch_idx != nullptr)
    found.push_back({"cache_batch_idx", fmt::format("{}", fmt::ptr(args.cache_batch_idx)),
                     "must be null with pages: the rows of page_table say where sequences lie"});
  if (p.page_size == 0 && args.cache_batch_idx == nullptr && p.cache_entries < p.batch)
    found.push_back({"cache_entries", fmt::format("{}", p.cache_entries),
                     fmt::format("must be at least batch = {} without cache_batch_idx", p.batch)});
  return found;
}

Violations violations_of_call(const AppendProblem& p, const AppendArgs& args) {
  Violations found = violations_of(p);
  if (has_shapes(p))
    std::ranges::move(violations_of(p, args, operands_of(p, args)), std::back_inserter(found));
  return found;
}

std::vector<Operand> operands_of(const AppendProblem& p, const AppendArgs& args) {
  const ElementType element = element_of(p.dtype),
                    angles = element_of<AppendArgs, row_index<AppendArgs>("cos")>(p);
  const bool are_shared = p.kv_type == KvType::ds_mla;  // by K and V
  std::vector<Operand> operands{
      strided_operand("k_new", Access::read, args.k_new, element, new_extents(p, p.head_dim),
                      args.k_new_strides),
      strided_operand("v_new", Access::read, args.v_new, element, new_extents(p, value_dim_of(p)),
                      args.v_new_strides),
      cache("k_cache", args.k_cache, p, are_shared ? LatentRow::bytes : p.head_dim, args.k_cache_strides)};
  if (!are_shared)
    operands.push_back(cache("v_cache", args.v_cache, p, value_dim_of(p), args.v_cache_strides));
  operands.push_back(factors("k_descale", args.k_descale, p, args.k_descale_strides));
  operands.push_back(factors("v_descale", args.v_descale, p, args.v_descale_strides));
  for (const auto& [name, data] : {std::pair{"cos", args.cos}, {"sin", args.sin}})
    operands.push_back(strided_operand(name, Access::read, data, angles,
                                       {p.rotary_dim > 0, 1, p.table_rows, p.rotary_dim / 2},
                                       {0, 0, args.table_stride}));
  const bool in_place =
      args.q != nullptr && args.q == args.q_out && is_same(args.q_strides, args.q_out_strides);
  if (!in_place)
    operands.push_back(strided_operand("q", Access::read, args.q, element, query_extents(p), args.q_strides));
  operands.push_back(strided_operand("q_out", in_place ? Access::read_write : Access::write, args.q_out,
                                     element, query_extents(p), args.q_out_strides));
  add_tables(operands, p, args);
  return operands;
}

RowKernel append_kernel_of(const AppendProblem& p, OperandList operands) {
  AttentionProblem any;
  any.dtype = p.dtype;
  any.head_dim = p.head_dim;
  any.head_dim_v = p.head_dim_v;
  any.kv_type = p.kv_type;
  std::vector<Operand> tensors;
  std::ranges::copy_if(operands, std::back_inserter(tensors),
                       [](const Operand& operand) { return operand.element != ElementType::i32; });
  return append_kernel({any, options_kept_by(any, tensors)});
}

Plan plan_append(const AppendProblem& problem, std::shared_ptr<const Kernel> kernel) {
  Plan plan;
  plan.add(kernels::append.make_step(
      {.problem = problem, .config = kernels::append.default_config, .kernel = std::move(kernel)}));
  return plan;
}

}  // namespace fa2
