// The flags of a problem: each test goes over AttentionProblem::visit.
#include <doctest/doctest.h>
#include <generator/problem_text.h>
#include <tools/problem_options.h>
#include <tools/verb.h>

#include <string>
#include <type_traits>

using namespace fa2;

namespace {

AttentionProblem parsed(const std::string& flags) {
  CLI::App app;
  tools::ProblemOptions options;
  options.add_to(app);
  app.parse(flags);
  return options.problem();
}

}  // namespace

TEST_CASE("problem options: every field has a flag") {
  CLI::App app;
  tools::ProblemOptions options;
  options.add_to(app);
  const AttentionProblem problem;
  AttentionProblem::visit(
      [&](const char* name, FieldRole, const auto&) {
        CAPTURE(std::string(name));
        CHECK(app.get_option_no_throw(flag_of(name)) != nullptr);
      },
      problem);
}

TEST_CASE("problem options: precompile has a flag for every field that specialises a kernel") {
  CLI::App app;
  const CLI::App* verb = tools::add_precompile(app).app;
  const AttentionProblem problem;
  AttentionProblem::visit(
      [&](const char* name, FieldRole role, const auto& value) {
        if (role == FieldRole::sizes && !kIsOptional<std::remove_cvref_t<decltype(value)>>) return;
        CAPTURE(std::string(name));
        CHECK(verb->get_option_no_throw(flag_of(name)) != nullptr);
      },
      problem);
}

TEST_CASE("problem options: the flags of traits are read back as those traits") {
  for (const AttentionProblem& problem :
       {AttentionProblem{.head_dim = 64}, AttentionProblem{.dtype = DType::bf16,
                                          .head_dim = 192,
                                          .head_dim_v = 128,
                                          .mask = MaskKind::causal_top_left,
                                          .row_alignment = RowAlignment::bytes16_any_order}}) {
    const AttentionTraits traits = traits_of(problem);
    CHECK(traits_of(parsed(flags_of(traits))) == traits);
  }
}

TEST_CASE("problem options: sizes, and the short words for them") {
  const AttentionProblem p = parsed("--batch 3 --heads 8 --heads-kv 2 --seqlen 100 --seqlen-k 0 --causal");
  CHECK(p.batch == 3);
  CHECK(p.heads_q == 8);
  CHECK(p.heads_kv == 2);
  CHECK(p.seqlen_q == 100);
  CHECK(p.seqlen_k == 0);
  CHECK(p.mask == MaskKind::causal_bottom_right);
  CHECK(p.head_dim == 128);
  CHECK(p.dtype == DType::f16);
  CHECK_THROWS_AS(parsed("--dtype f32"), CLI::ValidationError);
  CHECK_THROWS_AS(parsed("--head-dim 7"), CLI::ValidationError);
}
