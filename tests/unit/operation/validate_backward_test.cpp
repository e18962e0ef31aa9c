// The rules of a backward's calls, and of problems that support a backward.
#include <api/context.h>
#include <doctest/doctest.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>
#include <tests/support/backward_request.h>
#include <tests/support/request.h>
#include <tests/support/temporary_directory.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

AttentionProblem problem() {
  AttentionProblem p;
  p.head_dim = 64;
  p.batch = 2;
  p.heads_q = 4;
  p.heads_kv = 2;
  p.seqlen_q = 16;
  p.seqlen_k = 24;
  return p.normalized();
}

/// A call that obeys every rule until a test breaks one.
struct Request {
  PlannedProblem problem{::problem(), {}};
  Gradients gradients;
  BackwardArgs args = backward_arguments(::problem());

  std::vector<Violation> violations() const {
    const BackwardOperands operands = backward_operands_of(problem, args, 0);
    return violations_of(problem, gradients, args, operands);
  }
};

/// Returns the violations after `change`, as "FIELD: VALUE" lines.
std::string broken(const std::function<void(Request&)>& change) {
  Request request;
  change(request);
  return fields(request.violations());
}

/// Returns the rule of the only violation.
std::string rule(const std::function<void(Request&)>& change) {
  Request request;
  change(request);
  const std::vector<Violation> found = request.violations();
  REQUIRE(found.size() == 1);
  return found[0].rule;
}

/// Makes Q, K and V, and their gradients, slices of one tensor whose rows hold all heads of the three.
void pack(Request& r, const void* qkv, void* d_qkv) {
  AttentionProblem p = ::problem();
  p.heads_kv = p.heads_q, p.seqlen_k = p.seqlen_q;
  r.problem = {p, {}};
  r.args = backward_arguments(p);
  const std::int64_t slice = p.heads_q * p.head_dim, row = 3 * slice;
  const TensorStrides strides{p.seqlen_q * row, p.head_dim, row};
  const auto* const in = static_cast<const std::uint16_t*>(qkv);
  auto* const out = static_cast<std::uint16_t*>(d_qkv);
  r.args.forward.q = in, r.args.forward.k = in + slice, r.args.forward.v = in + 2 * slice;
  r.args.dq = out, r.args.dk = out + slice, r.args.dv = out + 2 * slice;
  r.args.forward.q_strides = r.args.forward.k_strides = r.args.forward.v_strides = strides;
  r.args.dq_strides = r.args.dk_strides = r.args.dv_strides = strides;
}

}  // namespace

TEST_CASE("backward arguments begin with the forward's, whose workspace they do not take") {
  AttentionArgs forward = backward_arguments(problem()).forward;
  forward.workspace = test::at(1 << 20);
  forward.softmax_scale = 0.5f;
  const BackwardArgs args = backward_args(forward);
  CHECK(args.forward.q == forward.q);
  CHECK(args.forward.lse == forward.lse);
  CHECK(args.forward.v_strides.row == forward.v_strides.row);
  CHECK(args.forward.softmax_scale == 0.5f);
  CHECK(args.workspace == nullptr);
  CHECK(backward_operands_of(problem(), args)[Role::workspace].data == nullptr);
  CHECK(args.d_out == nullptr);
  CHECK(args.dq == nullptr);
}

TEST_CASE("validate backward: all that it reads or writes is required, except dLSE") {
  CHECK(broken([](Request&) {}) == "");
  CHECK(broken([](Request& r) { r.args.forward.q = nullptr; }) == "q: null");
  CHECK(broken([](Request& r) { r.args.forward.k = r.args.forward.v = nullptr; }) == "k: null\nv: null");
  CHECK(broken([](Request& r) { r.args.forward.out = nullptr; }) == "out: null");
  CHECK(broken([](Request& r) { r.args.forward.lse = nullptr; }) == "lse: null");
  CHECK(broken([](Request& r) { r.args.d_out = nullptr; }) == "d_out: null");
  CHECK(broken([](Request& r) { r.args.d_lse = nullptr; }) == "");
  CHECK(broken([](Request& r) { r.args = {}; }) ==
        "dq: null\ndk: null\ndv: null\nq: null\nk: null\nv: null\nout: null\nlse: null\nd_out: null");
}

TEST_CASE("validate backward: a gradient is required exactly if the plan computes it") {
  CHECK(broken([](Request& r) { r.args.dq = nullptr; }) == "dq: null");
  CHECK(broken([](Request& r) { r.args.dk = r.args.dv = nullptr; }) == "dk: null\ndv: null");
  CHECK(rule([](Request& r) { r.args.dk = nullptr; }) ==
        "must point to the tensor: the plan computes it; or make it without, by Gradients::dk");
  CHECK(broken([](Request& r) { r.gradients.dq = false; }) == "dq: given");
  CHECK(broken([](Request& r) { r.gradients = {false, false, false}; }) == "dq: given\ndk: given\ndv: given");
  CHECK(rule([](Request& r) { r.gradients.dv = false; }) ==
        "must be null: the plan does not compute it; make it with Gradients::dv");
  CHECK(broken([](Request& r) {
          r.gradients = {true, false, true};
          r.args.dk = nullptr;
          r.args.dk_strides = {1, 1, 1};  // not used
        }) == "");
}

TEST_CASE("validate backward: at least one gradient is required, unless none has an element") {
  const auto none = [](Request& r) {
    r.gradients = {false, false, false};
    r.args.dq = r.args.dk = r.args.dv = nullptr;
  };
  CHECK(broken(none) == "dq, dk, dv, d_sinks and d_captures: null");
  CHECK(rule(none) == "must not all be: none is asked for");
  CHECK(broken([&](Request& r) { none(r), r.problem.seqlen_q = 0; }) ==
        "dq, dk, dv, d_sinks and d_captures: null");
  CHECK(broken([&](Request& r) { none(r), r.problem.seqlen_q = r.problem.seqlen_k = 0; }) == "");
  CHECK(broken([&](Request& r) { none(r), r.problem.batch = 0; }) == "");
}

TEST_CASE("validate backward: tensors without elements are not required, all others are") {
  const auto no_keys = [](Request& r) {
    r.problem.seqlen_k = 0;
    r.args.forward.k = r.args.forward.v = r.args.dk = r.args.dv = nullptr;
  };
  CHECK(broken(no_keys) == "");
  CHECK(broken([&](Request& r) { no_keys(r), r.args.dq = nullptr; }) == "dq: null");
  CHECK(broken([&](Request& r) { no_keys(r), r.args.d_out = nullptr; }) == "d_out: null");
  const auto no_queries = [](Request& r) {
    r.problem.seqlen_q = 0;
    r.args.forward.q = r.args.forward.out = r.args.forward.lse = nullptr;
    r.args.d_out = r.args.dq = nullptr;
  };
  CHECK(broken(no_queries) == "");
  CHECK(broken([&](Request& r) { no_queries(r), r.args.dv = nullptr; }) == "dv: null");
  CHECK(broken([](Request& r) { r.problem.batch = 0, r.args = {}; }) == "");
  CHECK(broken([](Request& r) {
          r.problem.batch = 0;
          r.args.forward.softmax_scale = HUGE_VALF;
        }) == "softmax_scale: inf");
}

TEST_CASE(
    "validate backward: the forward's scalars, variants and tables have the same rules as in the forward") {
  CHECK(broken([](Request& r) { r.args.forward.softmax_scale = std::nanf(""); }) == "softmax_scale: nan");
  CHECK(broken([](Request& r) { r.problem.softcap = true; }) == "softcap: 0");
  CHECK(broken([](Request& r) { r.args.forward.softcap = 2; }) == "softcap: 2");
  CHECK(broken([](Request& r) { r.problem.alibi = true; }) == "alibi_slopes: null");
  CHECK(broken([](Request& r) { r.args.forward.sinks = r.args.d_lse; }) == "sinks: given");
  static const std::int32_t kTable[1] = {};
  CHECK(broken([](Request& r) { r.args.forward.seqused_k = kTable; }) == "seqused_k: given");
}

TEST_CASE("validate backward: gradients must overlap neither inputs nor each other") {
  const auto overlap = [](const char* with, const std::function<void(Request&)>& change) {
    INFO(with);
    CHECK(rule(change).find("must not overlap " + std::string(with) + " at ") == 0);
  };
  const auto moved = [](const void* to) { return const_cast<void*>(to); };
  overlap("q", [&](Request& r) { r.args.dq = moved(r.args.forward.q); });
  overlap("k", [&](Request& r) { r.args.dk = moved(r.args.forward.k); });
  overlap("v", [&](Request& r) { r.args.dv = moved(r.args.forward.v); });
  overlap("out", [&](Request& r) { r.args.dq = r.args.forward.out; });
  overlap("d_out", [&](Request& r) { r.args.dq = moved(r.args.d_out); });
  overlap("lse", [&](Request& r) { r.args.dv = r.args.forward.lse; });
  overlap("d_lse", [&](Request& r) { r.args.dv = const_cast<float*>(r.args.d_lse); });
  overlap("dq", [](Request& r) { r.args.dk = r.args.dq; });
  overlap("dk", [](Request& r) { r.args.dv = r.args.dk; });
  // Inputs may: dO is O if the loss is half the sum of squares.
  CHECK(broken([](Request& r) { r.args.d_out = r.args.forward.out; }) == "");
  CHECK(broken([](Request& r) { r.args.d_lse = r.args.forward.lse; }) == "");
}

TEST_CASE("validate backward: dQ, dK and dV may be slices of one packed tensor, but may not overlap more") {
  void *const qkv = test::at(1 << 24), *const d_qkv = test::at(2 << 24);
  CHECK(broken([&](Request& r) { pack(r, qkv, d_qkv); }) == "");
  CHECK(rule([&](Request& r) {
          pack(r, qkv, d_qkv);
          r.args.dv = static_cast<std::uint16_t*>(r.args.dv) - 8;
        }).find("must not overlap dk at ") == 0);
  // In place: each gradient over its own input.
  CHECK(broken([&](Request& r) { pack(r, qkv, qkv); }).find("dq: ") == 0);
}

TEST_CASE("validate backward: rows of gradients must neither overlap nor be misaligned for bytes16") {
  const auto of_elements = [](const std::function<void(BackwardArgs&)>& change) {
    return broken([&](Request& r) {
      r.problem.row_alignment = RowAlignment::element;
      change(r.args);
    });
  };
  CHECK(of_elements([](BackwardArgs& a) { a.dq_strides.row = 0; }) == "dq_strides.row: 0");
  CHECK(of_elements([](BackwardArgs& a) { a.dk_strides.head = 56; }) == "dk_strides.head: 56");
  CHECK(of_elements([](BackwardArgs& a) { a.d_out_strides = {0, 0, 0}; }) == "");  // an input's rows may
  CHECK(broken([](Request& r) { r.args.d_out_strides.row += 4; }) == "d_out_strides.row: 260");
  CHECK(broken([](Request& r) { r.args.dv_strides.row += 4, r.args.dv_strides.batch *= 2; }) ==
        "dv_strides.row: 132");
  CHECK(rule([](Request& r) {
          r.args.dq = static_cast<std::uint16_t*>(r.args.dq) + 4;
        }).find("must be a multiple of 16 bytes for RowAlignment::bytes16") == 0);
  CHECK(of_elements([](BackwardArgs& a) {
          a.dq = static_cast<std::uint16_t*>(a.dq) + 1;
          a.d_out_strides.row += 4;
        }) == "");
}

TEST_CASE("validate backward: float32 dK and dV have rows and bytes of their own, dQ does not") {
  const auto of_floats = [](const std::function<void(Request&)>& change) {
    return broken([&](Request& r) {
      r.problem.float32_dk_dv = true;
      change(r);
    });
  };
  std::vector<float> dk(1 << 20), dv(1 << 20);
  const auto apart = [&](Request& r) { r.args.dk = dk.data(), r.args.dv = dv.data(); };
  CHECK(of_floats(apart) == "");
  CHECK(of_floats([&](Request& r) {
          apart(r);
          r.args.dk_strides.row += 4, r.args.dk_strides.batch *= 2;
        }) == "");
  CHECK(of_floats([&](Request& r) {
          apart(r);
          r.args.dk_strides.row += 2, r.args.dk_strides.batch *= 2;
        }).starts_with("dk_strides.row: "));
  CHECK(of_floats([&](Request& r) {
          apart(r);
          r.args.dv = reinterpret_cast<std::byte*>(dv.data()) + 2;
          r.problem.row_alignment = RowAlignment::element;
        }).starts_with("dv: "));
  CHECK(of_floats([&](Request& r) {
          apart(r);
          r.args.dv = dk.data() + 64;
        }).starts_with("dv: "));
}

TEST_CASE("validate backward: a plan's guarantees include the gradients") {
  const auto promised = [](const std::function<void(Request&)>& change) {
    Request request;
    change(request);
    return options_kept_by(request.problem, backward_operands_of(request.problem, request.args))
        .row_alignment;
  };
  CHECK(promised([](Request&) {}) == RowAlignment::bytes16);
  CHECK(promised([](Request& r) { r.args.d_out_strides.row += 4; }) == RowAlignment::element);
  CHECK(promised([](Request& r) { r.args.dv = static_cast<std::uint16_t*>(r.args.dv) + 4; }) ==
        RowAlignment::element);
  CHECK(promised([](Request& r) { r.args.dk_strides.row *= -1; }) == RowAlignment::bytes16_any_order);
  CHECK(promised([](Request& r) { r.args.dk = nullptr, r.args.dk_strides.row = 1; }) ==
        RowAlignment::bytes16);
}

TEST_CASE(
    "validate backward: the gradient of sinks is required exactly if there are sinks and the plan computes "
    "it") {
  const auto with_sinks = [](bool is_wanted, float* d_sinks) {
    return fields([&] {
      Request r;
      r.problem.sinks = true;
      r.args = backward_arguments(r.problem);
      r.args.d_sinks = d_sinks;
      r.gradients.d_sinks = is_wanted;
      return r.violations();
    }());
  };
  float* const floats = static_cast<float*>(test::at(std::uintptr_t{14} << 34));
  CHECK(with_sinks(true, floats) == "");
  CHECK(with_sinks(false, nullptr) == "");
  CHECK(with_sinks(false, floats) == "d_sinks: given");
  CHECK(with_sinks(true, nullptr) == "d_sinks: null");
  CHECK(with_sinks(true, static_cast<float*>(test::at(std::uintptr_t{12} << 34))).starts_with("d_sinks: "));
  CHECK(rule([&](Request& r) { r.args.d_sinks = floats; }) == "must be null, or the problem's sinks true");
  CHECK(rule([&](Request& r) { r.args.d_sinks = floats, r.gradients.d_sinks = true; }) ==
        "must be null, or the problem's sinks true");
  CHECK(fields(violations_of_backward(problem(), {.d_sinks = true})) == "d_sinks: true");
  AttentionProblem invariant = problem();
  invariant.batch_invariant = true;
  CHECK(violations_of_backward(invariant, {}).empty());
  CHECK(violations_of_backward(invariant, {.determinism = Determinism::bitwise}).empty());
  AttentionProblem p = problem();
  p.sinks = true;
  CHECK(violations_of_backward(p, {.d_sinks = true}).empty());
}

TEST_CASE("validate backward: gradients of packed tensors are packed") {
  const auto packed = [](const std::function<void(Request&)>& change) {
    return broken([&](Request& r) {
      AttentionProblem p = problem();
      p.varlen = true;
      p.total_q = 40, p.total_k = 80;
      r.problem = {p, {}};
      r.args = backward_arguments(p);
      r.args.forward.cu_seqlens_q = r.args.forward.cu_seqlens_k =
          static_cast<const std::int32_t*>(test::at(std::uintptr_t{13} << 34));
      change(r);
    });
  };
  CHECK(packed([](Request&) {}) == "");
  CHECK(packed([](Request& r) { r.args.forward.cu_seqlens_k = nullptr; }) == "cu_seqlens_k: null");
  CHECK(packed([](Request& r) { r.args.dq_strides.batch = r.args.d_out_strides.batch = 3; }) == "");
  CHECK(packed([](Request& r) { r.args.dk_strides.row = 8; }) == "dk_strides.row: 8");
  // LSE and its gradient are (heads_q, total_q): bytes after 4 * 40 floats belong to another tensor.
  const auto behind_lse = [](Request& r, std::ptrdiff_t floats) {
    r.args.dv = const_cast<float*>(r.args.d_lse) + floats;
  };
  CHECK(packed([&](Request& r) { behind_lse(r, 4 * 40); }) == "");
  CHECK(packed([&](Request& r) { behind_lse(r, 4 * 40 - 4); }).starts_with("dv: "));
  // The last row of dK is the last row of all sequences.
  const std::ptrdiff_t bytes = 80 * 2 * 64 * 2;
  const auto before_dv = [](Request& r, std::ptrdiff_t n) { r.args.dk = static_cast<char*>(r.args.dv) - n; };
  CHECK(packed([&](Request& r) { before_dv(r, bytes); }) == "");
  CHECK(packed([&](Request& r) { before_dv(r, bytes - 16); }).starts_with("dv: "));
  CHECK(packed([](Request& r) {
          r.args.dk = const_cast<std::int32_t*>(r.args.forward.cu_seqlens_q);
        }).starts_with("dk: "));
}

TEST_CASE("validate backward: the grid with the smallest key tile fits one launch") {
  AttentionProblem p = problem();
  p.heads_kv = 1, p.heads_q = 1;
  p.batch = (std::int64_t{1} << 30) - 1;
  p.seqlen_k = 32;
  CHECK(violations_of_backward(p).empty());
  p.seqlen_k = 33;
  CHECK(fields(violations_of_backward(p)) == "batch * heads_kv * ceil(seqlen_k / 16): 1073741823 * 1 * 3");
  p.batch = p.heads_kv = p.heads_q = std::int64_t{1} << 62;
  CHECK(violations_of_backward(p).size() == 1);
  p = problem();
  p.heads_kv = 0;  // defaults to heads_q
  p.heads_q = std::int64_t{1} << 30;
  p.batch = 1;
  p.seqlen_k = 32;
  CHECK(violations_of_backward(p).size() == 1);
}

TEST_CASE("validate backward: packed key tiles fit one launch, where each sequence may end inside a tile") {
  AttentionProblem p = problem();
  p.varlen = true;
  p.seqlen_k = 1 << 30;
  p.total_k = 1600;
  p.batch = (std::int64_t{1} << 30) - 101;
  CHECK(violations_of_backward(p).empty());
  p.batch += 1;
  CHECK(fields(violations_of_backward(p)) == "heads_kv * (total_k / 16 + batch): 2 * (100 + 1073741724)");
  p.total_k = 0;
  CHECK(fields(violations_of_backward(p)) ==
        "batch * heads_kv * ceil(seqlen_k / 16): 1073741724 * 2 * 67108864");
}

TEST_CASE("validate backward: a context rejects problems and calls before it compiles anything") {
  const TemporaryDirectory cache;
  ContextOptions options;
  options.cache_dir = cache.path();
  Context context(options);
  const ScopedContext current(kInterpreterDevice);
  AttentionProblem p = problem();
  BackwardArgs args = backward_arguments(p);
  args.dq = args.forward.out;
  CHECK_THROWS_WITH_AS(context.attention_backward(p, args), doctest::Contains("must not overlap o"),
                       InvalidRequest);
  p.varlen = true;
  p.total_q = 100;
  CHECK_THROWS_WITH_AS(context.attention_backward(p, args), doctest::Contains("cu_seqlens_q = null"),
                       InvalidRequest);
  p.head_dim = 7;
  CHECK_THROWS_WITH_AS(context.backward_plan(p, -1, {}, {}), doctest::Contains("head_dim = 7"),
                       InvalidRequest);
  CHECK(context.impl().backward_plans.size() == 0);
  CHECK(context.impl().loaded.size() == 0);
}

TEST_CASE("precompiling a backward that does not exist is refused") {
  AttentionProblem bytes = problem(), paged = bytes;
  bytes.kv_type = KvType::e4m3;
  paged.varlen = true;
  paged.page_size = 16, paged.page_count = 1;
  PrecompileOptions options;
  CHECK(violations_of({problem(), bytes, paged}, options, {"sm_80"}).empty());
  options.backward = true;
  CHECK(violations_of({problem()}, options, {"sm_80"}).empty());
  const auto found = violations_of({problem(), bytes, paged}, options, {"sm_80"});
  CHECK(fields(found) == "problems[1].kv_type: e4m3\nproblems[2].page_size: 16");
  CHECK(found.at(0).rule ==
        "must be same: gradients of 8-bit keys and values are not computed; or precompile no backward");
}
