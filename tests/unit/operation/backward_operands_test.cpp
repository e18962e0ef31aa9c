// What is defined once per backward operand holds everywhere: these cases iterate the list.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <operation/operands/operands.h>
#include <operation/operands/overlap.h>
#include <operation/rules/validate.h>
#include <tests/support/backward_request.h>
#include <tests/support/fake_kernels.h>
#include <tests/support/request.h>
#include <tests/unit/operation/operand_cases.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns a problem with every tensor that a batched problem can have.
AttentionProblem problem() {
  AttentionProblem p;
  p.head_dim = 64;
  p.head_dim_v = 32;
  p.batch = 5;
  p.heads_q = 8;
  p.heads_kv = 2;
  p.seqlen_q = 16;
  p.seqlen_k = 24;
  p.alibi = p.sinks = true;
  return p;
}

/// Returns the operands, each in its own 16 MB.
BackwardOperands operands() {
  constexpr std::size_t kWorkspace = 512;
  BackwardOperands all = backward_operands_of(problem(), backward_arguments(problem()), kWorkspace);
  for (std::size_t i = 0; i < kBackwardOperandCount; ++i) all.list[i].data = at((i + 1) << 24);
  return all;
}

/// Returns the indices of the operands that a batched problem has.
std::vector<std::size_t> present() {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < kBackwardOperandCount; ++i) {
    if (!operands().list[i].is_absent()) list.push_back(i);
  }
  return list;
}

std::string broken(const BackwardOperands& all, RowAlignment alignment) {
  const PlannedProblem p(problem(), {alignment});
  const auto is_given = [&](Role role) { return all[role].data != nullptr; };
  const Gradients wanted{.dq = is_given(Role::dq),
                         .dk = is_given(Role::dk),
                         .dv = is_given(Role::dv),
                         .d_sinks = is_given(Role::d_sinks)};
  return lines(violations_of(p, wanted, BackwardArgs{}, all));
}

OperandCases<BackwardOperands> cases() {
  return {operands(), present(), broken};
}

}  // namespace

TEST_CASE("backward operands: one per role, each with its own name") {
  std::set<std::string_view> found;
  for (const Operand& t : operands()) {
    CHECK(!t.name.empty());
    found.insert(t.name);
  }
  CHECK(found.size() == kBackwardOperandCount);
  const BackwardOperands all = operands();
  const Operands forward = operands_of(problem(), {});
  for (std::size_t i = 0; i < kOperandCount; ++i) CHECK(all.list[i].name == forward.list[i].name);
  CHECK(present().size() == 14);  // all but the four tables of sequences
  CHECK(broken(all, RowAlignment::bytes16).empty());
}

TEST_CASE("backward operands: gradients have the shapes of their tensors, and are optional") {
  const BackwardOperands all = operands();
  for (const auto& [gradient, of] : {std::pair{Role::d_out, Role::out},
                                     {Role::d_lse, Role::lse},
                                     {Role::dq, Role::q},
                                     {Role::dk, Role::k},
                                     {Role::dv, Role::v}}) {
    const Operand &d = all[gradient], &x = all[of];
    INFO(d.name);
    CHECK(d.extents == x.extents);
    CHECK(d.element == x.element);
    CHECK(d.strided == x.strided);
    CHECK(d.optional == (gradient != Role::d_out));
  }
  CHECK(all[Role::d_out].name == "d_out");
  CHECK(all[Role::d_lse].name == "d_lse");
  CHECK(all[Role::dq].name == "dq");
  CHECK(all[Role::dk].name == "dk");
  CHECK(all[Role::dv].name == "dv");

  const Operand& d_sinks = all[Role::d_sinks];
  CHECK(d_sinks.extents == all[Role{operand_index("sinks")}].extents);
  CHECK(d_sinks.element == ElementType::f32);
  CHECK_FALSE(d_sinks.strided);
  CHECK(d_sinks.optional);
  CHECK(d_sinks.name == "d_sinks");
  AttentionProblem sinkless = problem();
  sinkless.sinks = false;
  CHECK(backward_operands_of(sinkless, {})[Role::d_sinks].is_absent());
}

TEST_CASE("backward operands: the forward's outputs are read, and its LSE is required") {
  const BackwardOperands all = operands();
  std::string written;
  for (const std::size_t i : present()) {
    const Operand& t = all.list[i];
    if (t.is_written()) written += use_text(t.name, t.access) + " ";
  }
  CHECK(written == "workspace:read_write dq:write dk:write dv:write d_sinks:write ");
  CHECK_FALSE(all[Role::lse].optional);
  CHECK_FALSE(all[Role::out].optional);
}

TEST_CASE("backward operands: each has the strides that the call gives it") {
  BackwardArgs args = backward_arguments(problem());
  args.d_out_strides = {1, 2, 3};
  args.dq_strides = {4, 5, 6};
  args.dk_strides = {7, 8, 9};
  args.dv_strides = {10, 11, 12};
  const BackwardOperands all = backward_operands_of(problem(), args);
  using Strides = std::array<std::int64_t, 3>;
  CHECK((all[Role::d_out].strides == Strides{1, 2, 3}));
  CHECK((all[Role::dq].strides == Strides{4, 5, 6}));
  CHECK((all[Role::dk].strides == Strides{7, 8, 9}));
  CHECK((all[Role::dv].strides == Strides{10, 11, 12}));
  CHECK(all[Role::d_out].data == args.d_out);
  CHECK(all[Role::d_lse].data == args.d_lse);
  CHECK(all[Role::dq].data == args.dq);
  CHECK(all[Role::dk].data == args.dk);
  CHECK(all[Role::dv].data == args.dv);
}

TEST_CASE("backward operands: the pointer, alignment and address of each are checked") {
  expect_checked_pointers(cases());
}

TEST_CASE("backward operands: a written operand shares no byte with another") {
  expect_no_shared_byte(cases());
}

TEST_CASE("backward operands: the rows of each written one do not overlap") {
  expect_no_overlapping_rows(cases());
}

TEST_CASE("backward operands: each must be on the device, unless it is never accessed") {
  expect_checked_residency(cases());
  BackwardOperands no_keys = operands();
  for (const Role role : {Role::k, Role::v, Role::dk, Role::dv}) {
    Operand& t = no_keys.list[static_cast<std::size_t>(role)];
    t.extents[2] = 0;
    elsewhere = t.address();
    CHECK(violations_of_residency(no_keys, 0, elsewhere_facts).empty());
  }
}
