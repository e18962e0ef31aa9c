// The structs of the C interface: layouts, and callers with an older or a newer header. Needs no GPU.
#include <api/c_structs.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/c_api.h>
#include <fmt/format.h>
#include <operation/operands/rows.h>
#include <tests/support/c_context.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

using fa2::test::CContext;
using fa2::test::says;
using fa2::test::small_problem;

// The structs of fa2/c_call.h follow from rows. C readers rely on these offsets.
#define FA2_SAME_OFFSET(c_struct, name, described) \
  static_assert(offsetof(c_struct, name) ==        \
                fa2::kCStruct<fa2::described>.members[fa2::row_index<fa2::described>(#name)].field)
static_assert(std::is_standard_layout_v<fa2_problem> && std::is_standard_layout_v<fa2_args>);
static_assert(sizeof(fa2_tensor) == 32 && offsetof(fa2_tensor, strides) == 8);
FA2_SAME_OFFSET(fa2_problem, dtype, AttentionProblem);
FA2_SAME_OFFSET(fa2_problem, batch_invariant, AttentionProblem);
FA2_SAME_OFFSET(fa2_problem, window_left, AttentionProblem);
FA2_SAME_OFFSET(fa2_problem, page_count, AttentionProblem);
FA2_SAME_OFFSET(fa2_args, softmax_scale, AttentionArgs);
FA2_SAME_OFFSET(fa2_args, q, AttentionArgs);
FA2_SAME_OFFSET(fa2_args, page_table_stride, AttentionArgs);
FA2_SAME_OFFSET(fa2_args, workspace, AttentionArgs);
FA2_SAME_OFFSET(fa2_backward_args, forward, BackwardArgs);
FA2_SAME_OFFSET(fa2_backward_args, workspace, BackwardArgs);
FA2_SAME_OFFSET(fa2_append_problem, max_pages, AppendProblem);
FA2_SAME_OFFSET(fa2_append_args, q_out, AppendArgs);
FA2_SAME_OFFSET(fa2_merge_problem, seqlen, MergeProblem);
FA2_SAME_OFFSET(fa2_merge_args, lse, MergeArgs);
static_assert(sizeof(fa2_plan_options) == 8 && sizeof(fa2_precompile_options) == 72 &&
              offsetof(fa2_precompile_options, append) == 32 && sizeof(fa2_tune_options) == 16);
static_assert(FA2_INTERPRETER_DEVICE == fa2::kInterpreterDevice);
static_assert(sizeof(fa2_context_options) == 40 && offsetof(fa2_context_options, cache_dir) == 16);
static_assert(FA2_INVALID_REQUEST == static_cast<int>(fa2::ErrorCode::invalid_request) &&
              FA2_COMPILE == static_cast<int>(fa2::ErrorCode::compile) &&
              FA2_CACHE == static_cast<int>(fa2::ErrorCode::cache) &&
              FA2_CUDA == static_cast<int>(fa2::ErrorCode::cuda) &&
              FA2_UNAVAILABLE == static_cast<int>(fa2::ErrorCode::unavailable) &&
              FA2_INTERNAL == static_cast<int>(fa2::ErrorCode::internal));

TEST_CASE("c structs: struct sizes") {
  const CContext context;
  fa2_problem problem = small_problem();
  problem.batch = 0;
  fa2_args args = FA2_ARGS_INIT;
  args.struct_size = 0;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says(
      fmt::format("args = a struct with struct_size 0, must have {}, or in a later version", sizeof args)));
  args.struct_size = 0xffffffff;  // never set by the caller: not so many bytes are read
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says(fmt::format("struct_size 4294967295, must have {}, ", sizeof args)));

  struct Newer {  // as a later header might declare it
    fa2_args known;
    std::int64_t later;
  };
  Newer newer = {FA2_ARGS_INIT, 0};
  newer.known.struct_size = sizeof(Newer);
  CHECK(fa2_attention(context.get(), &problem, &newer.known, nullptr) == FA2_OK);
  newer.later = 1;
  CHECK(fa2_attention(context.get(), &problem, &newer.known, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says(fmt::format("from byte {} on", sizeof args)));
}

namespace {

/// CHECKs that read(struct) accepts the sizes in `allowed`, later sizes that are multiples of the alignment,
/// and no others.
template <class Struct, class Read>
void check_sizes(const Struct& initial, std::initializer_list<std::size_t> allowed, const Read& read) {
  constexpr std::size_t kMost = sizeof(Struct) + 64;
  for (std::size_t size = 0; size <= kMost; ++size) {
    alignas(Struct) unsigned char bytes[kMost] = {};
    std::memcpy(bytes, &initial, sizeof initial);
    Struct& given = *reinterpret_cast<Struct*>(bytes);
    given.struct_size = static_cast<std::uint32_t>(size);
    const bool is_later = size > sizeof(Struct) && size % alignof(Struct) == 0;
    const bool is_allowed = is_later || std::ranges::find(allowed, size) != allowed.end();
    CAPTURE(size);
    CHECK(read(&given) == is_allowed);
  }
}

/// Returns a function that tells whether a conversion finds nothing wrong.
template <class Convert>
auto reads(const Convert& convert) {
  return [=](const auto* pointer) {
    fa2::Found found;
    convert(pointer, found);
    return found.empty();
  };
}

}  // namespace

TEST_CASE("c structs: only sizes of a version are read, so no field is read in part") {
  const auto problem = reads([](const auto* p, fa2::Found& found) { fa2::problem_of(p, found); });
  const auto args = reads([](const auto* p, fa2::Found& found) { fa2::args_of(p, found); });
  const auto options = reads([](const auto* p, fa2::Found& found) { fa2::options_of(p, found); });
  check_sizes(fa2_problem FA2_PROBLEM_INIT, {sizeof(fa2_problem)}, problem);
  check_sizes(fa2_args FA2_ARGS_INIT, {sizeof(fa2_args)}, args);
  check_sizes(fa2_append_problem FA2_APPEND_PROBLEM_INIT, {sizeof(fa2_append_problem)}, problem);
  check_sizes(fa2_append_args FA2_APPEND_ARGS_INIT, {sizeof(fa2_append_args)}, args);
  check_sizes(fa2_merge_problem FA2_MERGE_PROBLEM_INIT, {sizeof(fa2_merge_problem)}, problem);
  check_sizes(fa2_merge_args FA2_MERGE_ARGS_INIT, {sizeof(fa2_merge_args)}, args);
  const fa2_args forward = FA2_ARGS_INIT;
  fa2_backward_args backward = FA2_BACKWARD_ARGS_INIT;
  backward.forward = &forward;
  check_sizes(backward, {sizeof(fa2_backward_args)}, args);
  check_sizes(fa2_plan_options FA2_PLAN_OPTIONS_INIT, {8}, options);
  check_sizes(fa2_tune_options FA2_TUNE_OPTIONS_INIT, {16}, options);
  check_sizes(fa2_precompile_options FA2_PRECOMPILE_OPTIONS_INIT, {72},
              reads([](const auto* p, fa2::Found& found) { fa2::PrecompileRequest(p, found); }));
  check_sizes(fa2_context_options FA2_CONTEXT_OPTIONS_INIT, {40}, [](const fa2_context_options* given) {
    try {
      fa2::options_of(given);
      return true;
    } catch (const fa2::InvalidRequest&) {
      return false;
    }
  });
  check_sizes(fa2_problem FA2_PROBLEM_INIT, {sizeof(fa2_problem)}, [](const fa2_problem* given) {
    fa2::Found found;  // the size is also the distance between elements
    const auto converted = fa2::problems_of(given, 1, found);
    return found.empty() && converted.size() == 1;
  });
}

TEST_CASE("c structs: a workspace") {
  fa2_args args = FA2_ARGS_INIT;
  args.workspace = &args;
  fa2::Found found;
  CHECK(fa2::args_of(&args, found).value().workspace == &args);
  CHECK(found.empty());

  std::size_t bytes = 1;
  CHECK(fa2_plan_workspace_bytes(nullptr, &bytes) == FA2_INVALID_REQUEST);
  CHECK(says("plan = NULL"));
  CHECK(bytes == 0);
  CHECK(fa2_plan_workspace_bytes(nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("bytes = NULL"));
}

TEST_CASE("c structs: sequences with their own lengths") {
  const CContext context;
  fa2_problem problem = small_problem();
  problem.varlen = 2;
  problem.total_q = 40;
  problem.total_k = 50;
  fa2_args args = FA2_ARGS_INIT;
  const std::int32_t tables[4] = {};
  args.cu_seqlens_q = &tables[0];
  args.cu_seqlens_k = &tables[1];
  args.seqused_q = &tables[2];
  args.seqused_k = &tables[3];
  fa2::Found found;
  fa2::AttentionProblem p = fa2::problem_of(&problem, found).value();
  CHECK(p.varlen);
  CHECK(p.total_q == 40);
  CHECK(p.total_k == 50);
  fa2::AttentionArgs a = fa2::args_of(&args, found).value();
  CHECK(a.cu_seqlens_q == &tables[0]);
  CHECK(a.cu_seqlens_k == &tables[1]);
  CHECK(a.seqused_q == &tables[2]);
  CHECK(a.seqused_k == &tables[3]);

  CHECK(found.empty());

  problem.varlen = 0;
  args.reserved = 1;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part : {"reserved = 1, must be 0", "total_q = 40, must be 0, or varlen true",
                           "seqused_k = given, must be null"})
    CHECK(says(part));
}
