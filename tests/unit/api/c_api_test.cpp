// The C interface: codes and messages. c_structs_test.cpp tests the structs' layouts. Needs no GPU.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/c_api.h>
#include <fmt/format.h>
#include <runtime/device.h>
#include <tests/support/c_context.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

using fa2::test::CContext;
using fa2::test::says;
using fa2::test::small_problem;

TEST_CASE("c api: version") {
  CHECK(std::string(fa2_version()) == fa2::version());
  CHECK(fmt::format("{}.{}.{}", FA2_VERSION_MAJOR, FA2_VERSION_MINOR, FA2_VERSION_PATCH) == fa2_version());
}

TEST_CASE("c api: NULL for a required argument is an error that names it") {
  const CContext context;
  const fa2_problem problem = small_problem();
  const fa2_args args = FA2_ARGS_INIT;
  CHECK(fa2_attention(context.get(), nullptr, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problem = NULL"));
  CHECK(fa2_attention(context.get(), &problem, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("args = NULL"));
  CHECK(fa2_context_create(nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("context = NULL"));
  CHECK(fa2_plan_create(context.get(), &problem, -1, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("plan = NULL"));
  CHECK(fa2_plan_run(nullptr, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(fa2_plan_explain(nullptr, nullptr) == FA2_INVALID_REQUEST);
  char* json = const_cast<char*>("untouched");
  CHECK(fa2_plan_explain(nullptr, &json) == FA2_INVALID_REQUEST);
  CHECK(json == nullptr);
  CHECK(fa2_precompile(context.get(), nullptr, 1, nullptr, 0, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problems = NULL"));
  const char* const archs[] = {"sm_80", nullptr};
  CHECK(fa2_precompile(context.get(), &problem, 1, archs, 2, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("archs[1] = NULL"));
  CHECK(fa2_context_destroy(nullptr) == FA2_OK);
  CHECK(fa2_plan_destroy(nullptr) == FA2_OK);
  fa2_string_free(nullptr);
}

TEST_CASE("c api: the message lists everything wrong with a problem") {
  const CContext context;
  fa2_problem problem = small_problem();
  problem.dtype = 256;  // a cast to 8 bits would make it f16
  problem.mask = -1;
  problem.head_dim = 7;
  const fa2_args args = FA2_ARGS_INIT;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("dtype = 256"));
  CHECK(says("mask = -1"));
  CHECK(says("head_dim = 7, must be a multiple of 8"));

  fa2_args bad = FA2_ARGS_INIT;
  bad.empty_row_lse = 2;
  problem = small_problem();
  CHECK(fa2_attention(context.get(), &problem, &bad, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("empty_row_lse = 2"));
}

TEST_CASE("c api: one message lists what is wrong with the problem, the arguments and their structs") {
  const CContext context;
  fa2_problem problem = small_problem();
  problem.dtype = 7;
  problem.head_dim = 7;
  fa2_args args = FA2_ARGS_INIT;
  args.empty_row_lse = 2;
  args.has_softmax_scale = 1;
  args.softmax_scale = std::strtof("inf", nullptr);
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part : {"dtype = 7", "head_dim = 7", "empty_row_lse = 2", "softmax_scale = inf",
                           "q = null", "k = null", "v = null", "out = null"}) {
    CAPTURE(part);
    CHECK(says(part));
  }
  problem.struct_size = 1;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problem = a struct with struct_size 1"));
  CHECK(says("softmax_scale = inf"));
  problem.struct_size = sizeof problem;
  args.struct_size = 1;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("args = a struct with struct_size 1"));
  CHECK(says("head_dim = 7"));

  fa2_plan* plan = nullptr;
  fa2_plan_options options = FA2_PLAN_OPTIONS_INIT;
  options.row_alignment = 3;
  CHECK(fa2_plan_create(context.get(), &problem, -5, &options, &plan) == FA2_INVALID_REQUEST);
  for (const char* part : {"dtype = 7", "head_dim = 7", "device = -5", "row_alignment = 3"})
    CHECK(says(part));
}

TEST_CASE("c api: a problem without output needs no pointers, but its scale is checked") {
  const CContext context;
  fa2_problem problem = small_problem();
  problem.batch = 0;
  fa2_args args = FA2_ARGS_INIT;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_OK);
  args.softmax_scale = std::strtof("inf", nullptr);
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_OK);  // scale is not used
  args.has_softmax_scale = 1;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("softmax_scale = inf"));
}

TEST_CASE("c api: context options") {
  fa2_context* context = nullptr;
  fa2_context_options options = FA2_CONTEXT_OPTIONS_INIT;
  options.tune = 6;
  options.jit = -1;
  CHECK(fa2_context_create(&options, &context) == FA2_INVALID_REQUEST);
  CHECK(context == nullptr);
  CHECK(says("tune = 6"));
  CHECK(says("jit = -1"));
  options = FA2_CONTEXT_OPTIONS_INIT;
  options.config = "tile_q=1";
  CHECK(fa2_context_create(&options, &context) == FA2_INVALID_REQUEST);
  CHECK(says("tile_q"));
  options.tune_budget_ms = -5;
  options.tune = 6;
  CHECK(fa2_context_create(&options, &context) == FA2_INVALID_REQUEST);
  for (const char* part : {"tile_q", "tune_budget_ms = -5", "tune = 6"}) CHECK(says(part));
}

TEST_CASE("c api: options of precompile and tune") {
  const CContext context;
  fa2_problem problem = small_problem();
  problem.head_dim = 7;
  fa2_tune_options tune = FA2_TUNE_OPTIONS_INIT;
  tune.scope = 2;
  tune.row_alignment = -1;
  tune.backward = 2;
  CHECK(fa2_tune(context.get(), &problem, 0, &tune, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part : {"scope = 2, must be likely (0) or all (1)", "row_alignment = -1",
                           "backward = 2, must be 0 or 1", "head_dim = 7"})
    CHECK(says(part));

  fa2_precompile_options options = FA2_PRECOMPILE_OPTIONS_INIT;
  options.scope = -1;
  options.jobs = -2;
  options.row_alignment = 3;
  options.append = 2, options.merge = -1;
  const char* const archs[] = {"sm_80"};
  CHECK(fa2_precompile(context.get(), &problem, 1, archs, 1, &options, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part : {"scope = -1", "jobs = -2", "row_alignment = 3", "append = 2, must be 0 or 1",
                           "merge = -1, must be 0 or 1", "problems[0].head_dim = 7"})
    CHECK(says(part));

  options = FA2_PRECOMPILE_OPTIONS_INIT;
  options.backward = 1;
  problem.head_dim = 64;
  problem.kv_type = FA2_KV_E4M3;
  CHECK(fa2_precompile(context.get(), &problem, 1, archs, 1, &options, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problems[0].kv_type = e4m3, must be same: gradients of 8-bit"));
}

TEST_CASE("c api: variants") {
  const CContext context;
  fa2_problem problem = small_problem();
  problem.has_window_left = problem.has_window_right = 1;
  problem.window_left = -1;
  problem.window_right = -2;
  fa2_args args = FA2_ARGS_INIT;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part : {"window_left = -1", "window_right = -2"}) CHECK(says(part));

  problem = small_problem();
  problem.softcap = problem.alibi = problem.sinks = 1;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part : {"softcap = 0, must be finite and above 0", "alibi_slopes = null", "sinks = null"})
    CHECK(says(part));

  problem = small_problem();
  const float number = 1;
  args.softcap = 5;
  args.alibi_slopes = args.sinks = &number;
  CHECK(fa2_attention(context.get(), &problem, &args, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part :
       {"softcap = 5, must be 0", "alibi_slopes = given, must be null", "sinks = given, must be null"})
    CHECK(says(part));
}

TEST_CASE("c api: each thread has its own message") {
  CHECK(fa2_plan_run(nullptr, nullptr, nullptr) == FA2_INVALID_REQUEST);
  std::string elsewhere = "none";
  std::thread([&] { elsewhere = fa2_last_error(); }).join();
  CHECK(elsewhere.empty());
  CHECK(says("plan"));
}

TEST_CASE("c api: without a GPU, plans and searches say what is missing") {
  if (fa2::device_count() > 0) {
    MESSAGE("skipped: there is a GPU");
    return;
  }
  const CContext context;
  const fa2_problem problem = small_problem();
  fa2_plan* plan = nullptr;
  CHECK(fa2_plan_create(context.get(), &problem, 0, nullptr, &plan) == FA2_UNAVAILABLE);
  CHECK(plan == nullptr);
  CHECK(std::strlen(fa2_last_error()) > 0);
  CHECK(fa2_plan_create(context.get(), &problem, -3, nullptr, &plan) == FA2_INVALID_REQUEST);
  CHECK(says("device = -3"));
  CHECK(fa2_tune(context.get(), &problem, 0, nullptr, nullptr) == FA2_UNAVAILABLE);
  fa2_tune_options tune = FA2_TUNE_OPTIONS_INIT;
  tune.backward = 1;
  CHECK(fa2_tune(context.get(), &problem, 0, &tune, nullptr) == FA2_UNAVAILABLE);
}

TEST_CASE("c api: precompile reports every kernel, also failed ones") {
  const CContext context;  // FA2_JIT=off and an empty cache, so no kernel can be made
  fa2_problem problems[2] = {small_problem(), small_problem()};
  problems[1].dtype = FA2_BF16;
  const char* const archs[] = {"sm_80"};
  char* report = nullptr;
  CHECK(fa2_precompile(context.get(), problems, 0, archs, 1, nullptr, &report) == FA2_OK);
  CHECK(std::string(report) == "[]");
  fa2_string_free(report);

  struct Progress {
    std::size_t calls = 0, done = 0, total = 0;
  } progress;
  fa2_precompile_options options = FA2_PRECOMPILE_OPTIONS_INIT;
  options.progress_data = &progress;
  options.progress = [](void* data, std::size_t done, std::size_t total) {
    auto& seen = *static_cast<Progress*>(data);
    seen = {seen.calls + 1, done, total};
  };
  CHECK(fa2_precompile(context.get(), problems, 2, archs, 1, &options, &report) == FA2_COMPILE);
  CHECK(progress.total > 2);
  CHECK(progress.calls == progress.total);
  CHECK(progress.done == progress.total);
  CHECK(says("f16 d64 none"));
  CHECK(says("bf16 d64 none"));
  REQUIRE(report != nullptr);
  CHECK(std::string(report).find("\"dtype\": \"bf16\"") != std::string::npos);
  fa2_string_free(report);

  const char* const unknown[] = {"sm_10"};
  CHECK(fa2_precompile(context.get(), problems, 2, unknown, 1, nullptr, &report) == FA2_INVALID_REQUEST);
  CHECK(says("sm_10"));
  CHECK(report == nullptr);
  problems[1].struct_size = 112;
  CHECK(fa2_precompile(context.get(), problems, 2, archs, 1, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(says("problems = element 1 with struct_size 112"));
  problems[1] = small_problem();
  problems[1].mask = 9;
  problems[0].head_dim = 7;
  const char* const wrong[] = {nullptr, "sm_10"};
  CHECK(fa2_precompile(context.get(), problems, 2, wrong, 2, nullptr, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part : {"problems[1].mask = 9", "problems[0].head_dim = 7", "archs[0] = NULL", "sm_10"}) {
    CAPTURE(part);
    CHECK(says(part));
  }
}
