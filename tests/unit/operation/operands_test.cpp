// What is defined once per operand holds everywhere: these cases iterate the list.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <operation/operands/operands.h>
#include <operation/operands/overlap.h>
#include <operation/rules/validate.h>
#include <tests/support/request.h>
#include <tests/unit/operation/operand_cases.h>

#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

AttentionProblem problem() {
  AttentionProblem p;
  p.head_dim = 64;
  p.head_dim_v = 32;
  p.batch = 5;
  p.heads_q = 8;
  p.heads_kv = 2;
  p.seqlen_q = 16;
  p.seqlen_k = 24;
  AttentionProblem::visit(
      [](const char* name, FieldRole, auto& value) {  // all tensors are used
        for (const Tensor& tensor : kAttentionTable.tensors)
          if constexpr (std::is_same_v<decltype(value), bool&>)
            value |= std::string_view(tensor.text.used_if) == name;
      },
      p);
  p.kv_type = KvType::e4m3;
  p.total_q = 60;
  p.total_k = 100;
  p.page_size = 8;  // no valid problem has both; the list has them all the same
  p.page_count = 5;
  return p;
}

/// Returns contiguous tensors, each in its own 16 MB.
Operands operands() {
  constexpr std::size_t kWorkspace = 512;
  AttentionArgs args = bshd_args(problem(), nullptr, nullptr, nullptr, nullptr);
  args.k_descale_strides = args.v_descale_strides = {2, 1, 0};
  Operands all = operands_of(problem(), args, kWorkspace);
  for (std::size_t i = 0; i < kOperandCount; ++i) all.list[i].data = at((i + 1) << 24);
  return all;
}

std::string broken(const Operands& all, RowAlignment alignment) {
  return lines(violations_of(PlannedProblem(problem(), {alignment}), AttentionArgs{}, all));
}

OperandCases<Operands> cases() {
  std::vector<std::size_t> every(kOperandCount);
  std::iota(every.begin(), every.end(), std::size_t{0});
  return {operands(), every, broken};
}

}  // namespace

TEST_CASE("operands: one per role, each with a name, elements and bytes") {
  std::set<std::string_view> found;
  for (const Operand& t : operands()) {
    INFO(t.name);
    CHECK(!t.name.empty());
    CHECK(size_in_bytes(t) > 0);
    CHECK(size_in_bytes(t) % static_cast<std::size_t>(bytes_of(t.element)) == 0);
    found.insert(t.name);
  }
  CHECK(found.size() == kOperandCount);

  const Operands all = operands();
  CHECK(all[Role::q].name == "q");
  CHECK(size_in_bytes(all[Role::q]) == 60 * 8 * 64 * 2);
  CHECK(size_in_bytes(all[Role::k]) == 100 * 2 * 64);
  CHECK(size_in_bytes(all[Role::v]) == 100 * 2 * 32);
  CHECK(size_in_bytes(all[Role::out]) == 60 * 8 * 32 * 2);
  CHECK(size_in_bytes(all[Role::lse]) == 60 * 8 * 4);
  CHECK(all[Role::lse].name == "lse");
  CHECK(size_in_bytes(all[Role::workspace]) == 512);
  CHECK(size_in_bytes(all[Role::cu_seqlens_q]) == 6 * 4);
  CHECK(size_in_bytes(all[Role::cu_seqlens_k]) == 6 * 4);
  CHECK(size_in_bytes(all[Role::seqused_q]) == 5 * 4);
  CHECK(size_in_bytes(all[Role::seqused_k]) == 5 * 4);
  CHECK(size_in_bytes(all[Role::dropout_state]) == 16);
  CHECK(broken(all, RowAlignment::bytes16).empty());
}

TEST_CASE("operands: a batched side has no borders, and equal lengths have no tables") {
  AttentionProblem p = problem();
  p.total_q = 0;
  Operands all = operands_of(p, {});
  CHECK(size_in_bytes(all[Role::q]) == 5 * 8 * 16 * 64 * 2);
  CHECK(size_in_bytes(all[Role::lse]) == 5 * 8 * 16 * 4);
  CHECK(all[Role::cu_seqlens_q].is_absent());
  CHECK_FALSE(all[Role::cu_seqlens_k].is_absent());
  CHECK(size_in_bytes(all[Role::seqused_q]) == 5 * 4);
  p.total_k = 0;
  all = operands_of(p, {});
  CHECK(size_in_bytes(all[Role::k]) == 5 * 2 * 8 * 64);  // pages
  CHECK(size_in_bytes(all[Role::page_table]) == 3 * 4);
  AttentionArgs rows_apart;
  rows_apart.page_table_stride = 10;
  CHECK(size_in_bytes(operands_of(p, rows_apart)[Role::page_table]) == (4 * 10 + 3) * 4);
  p.page_size = 0;
  p.varlen = false;
  all = operands_of(p, {});
  CHECK(size_in_bytes(all[Role::k]) == 5 * 2 * 24 * 64);
  CHECK(size_in_bytes(all[Role::v]) == 5 * 2 * 24 * 32);
  CHECK(size_in_bytes(all[Role::out]) == 5 * 8 * 16 * 32 * 2);
  for (const Role role :
       {Role::cu_seqlens_q, Role::cu_seqlens_k, Role::seqused_q, Role::seqused_k, Role::page_table})
    CHECK(size_in_bytes(all[role]) == 0);
}

TEST_CASE("operands: a dense one spans its elements, with any strides") {
  for (const Operand& t : operands()) {
    INFO(t.name);
    const ByteRange range = range_of(t);
    CHECK(range.begin == Int128{t.address()});
    CHECK(static_cast<std::size_t>(range.end - range.begin) == size_in_bytes(t));
  }
}

TEST_CASE("operands: the pointer, alignment and address of each are checked") {
  expect_checked_pointers(cases());
}

TEST_CASE("operands: a written operand shares no byte with another") {
  expect_no_shared_byte(cases());
}

TEST_CASE("operands: the rows of each written one do not overlap") {
  expect_no_overlapping_rows(cases());
}

TEST_CASE("operands: each must be on the device, unless it is never accessed") {
  expect_checked_residency(cases());
  AttentionProblem no_keys = problem();
  no_keys.seqlen_k = no_keys.total_k = no_keys.page_size = 0;
  AttentionArgs args;
  args.k = at(elsewhere);
  CHECK(violations_of_residency(operands_of(no_keys, args), 0, elsewhere_facts).empty());
}
