// The flags of a problem: each test iterates PlannedProblem::visit.
#include <doctest/doctest.h>
#include <fa2/score_text.h>
#include <generator/problem_text.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>
#include <tools/npy.h>
#include <tools/problem_options.h>
#include <tools/trait_options.h>
#include <tools/verb.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

PlannedProblem parsed(const std::string& flags) {
  CLI::App app;
  tools::ProblemOptions options;
  options.add_to(app);
  app.parse(flags);
  return options.problem();
}

std::vector<AttentionProblem> benchmarked(const std::string& flags) {
  CLI::App app;
  tools::MatrixOptions options;
  options.add_to(app);
  app.parse(flags);
  return options.problems();
}

std::vector<PlannedProblem> precompiled(const std::string& flags) {
  CLI::App app;
  tools::TraitOptions options;
  options.add_to(app);
  app.parse(flags);
  std::vector<PlannedProblem> all;
  for (const AttentionProblem& problem : options.problems(false)) {
    for (const PlanOptions& plan : options.plans()) all.emplace_back(problem, plan);
  }
  return all;
}

}  // namespace

TEST_CASE("problem options: every field has a flag") {
  CLI::App app;
  tools::ProblemOptions options;
  options.add_to(app);
  const PlannedProblem problem;
  PlannedProblem::visit(
      [&](const char* name, FieldRole, const auto&) {
        CAPTURE(std::string(name));
        CHECK(app.get_option_no_throw(flag_of(name)) != nullptr);
      },
      problem);
}

TEST_CASE(
    "problem options: K and V have the pages that the longest sequences fill, or the requested number") {
  const std::string cache = "--varlen --page-size 16 --batch 3 --seqlen-q 1 --seqlen-k 33";
  CHECK(parsed(cache).page_count == 9);
  CHECK(parsed(cache + " --page-count 4").page_count == 4);
  CHECK(parsed("--varlen --page-size 16 --batch 3 --seqlen 0").page_count == 1);
  CHECK(parsed("--varlen --batch 3").page_count == 0);
  CHECK_THROWS_WITH_AS(parsed("--varlen --page-size 1 --batch 2147483647"),
                       doctest::Contains("page_count = 2147483647, must be in 1..2147482624"),
                       CLI::ValidationError);
}

TEST_CASE("problem options: precompile has a flag for every field that specialises a kernel") {
  CLI::App app;
  const CLI::App* verb = tools::add_precompile(app).app;
  const PlannedProblem problem;
  PlannedProblem::visit(
      [&](const char* name, FieldRole role, const auto& value) {
        if (role == FieldRole::sizes && !kIsOptional<std::remove_cvref_t<decltype(value)>>) return;
        CAPTURE(std::string(name));
        CHECK(verb->get_option_no_throw(flag_of(name)) != nullptr);
      },
      problem);
}

TEST_CASE("problem options: files hold texts of scores") {
  const TemporaryDirectory dir;
  write_text(dir / "mod", "return 2.0f * score;");
  write_text(dir / "mask", "return at.key < 7;");
  write_text(dir / "open", "return (7;");
  const ScoreTexts texts{.mod = "return 2.0f * score;", .mask = "return at.key < 7;"};
  const std::string mod = " --score-mod " + (dir / "mod").string(),
                    mask = " --score-mask " + (dir / "mask").string();
  CHECK(parsed(mod + mask).score_text == make_score_text(texts));
  CHECK(parsed(mask + mod).score_text == make_score_text(texts));
  CHECK(precompiled("--head-dim 64" + mod + mask).front().score_text == make_score_text(texts));
  CHECK(parsed("").score_text == 0);
  CHECK_THROWS_WITH_AS(parsed("--score-bias " + (dir / "open").string()),
                       doctest::Contains("must close the brackets"), CLI::ValidationError);
  CHECK_THROWS_AS(parsed("--score-mod " + (dir / "missing").string()), CLI::ValidationError);
}

TEST_CASE("problem options: flags describe what texts capture") {
  const TemporaryDirectory dir;
  write_text(dir / "mod", "return score * gain() + table(at.head, at.key);");
  tools::write_npy(dir / "table.npy", {{2, 3}, std::vector<float>(6, 1)});
  tools::write_npy(dir / "ids.npy", {{4}, std::vector<std::int32_t>(4, 1)});
  const std::string mod = " --score-mod " + (dir / "mod").string();
  const auto captures = [&](const std::string& flags, const std::string& before = "") {
    return score_texts(parsed(before + mod + flags).score_text).captures;
  };
  const auto is = [](const CaptureSpec& spec, const char* name, CaptureType type, int dimensions) {
    return spec.name == name && spec.type == type && spec.dimensions == dimensions;
  };
  const auto all =
      captures(" --capture table:bf16:2 --capture ids:bool:1 --capture n:i64 --capture gain:f32");
  REQUIRE(all.size() == 4);
  CHECK(is(all[0], "table", CaptureType::bf16, 2));
  CHECK(is(all[1], "ids", CaptureType::boolean, 1));
  CHECK(is(all[2], "n", CaptureType::i64, CaptureSpec::kNumber));
  CHECK(is(all[3], "gain", CaptureType::f32, CaptureSpec::kNumber));
  const auto values = captures(
      " --capture a=2 --capture b=2.0 --capture c=-1e3 --capture d=true --capture e=5000000000",
      " --capture table=" + (dir / "table.npy").string() + " --capture ids=" + (dir / "ids.npy").string());
  REQUIRE(values.size() == 7);
  CHECK(is(values[0], "table", CaptureType::f32, 2));
  CHECK(is(values[1], "ids", CaptureType::i32, 1));
  CHECK(is(values[2], "a", CaptureType::i32, -1));
  CHECK(is(values[3], "b", CaptureType::f32, -1));
  CHECK(is(values[4], "c", CaptureType::f32, -1));
  CHECK(is(values[5], "d", CaptureType::boolean, -1));
  CHECK(is(values[6], "e", CaptureType::i64, -1));
  CHECK(score_texts(benchmarked(mod + " --capture gain=0.5").front().score_text).captures.size() == 1);
  CHECK(score_texts(precompiled("--head-dim 64" + mod + " --capture gain:f32").front().score_text)
            .captures.size() == 1);

  const auto says = [&](const std::string& flags, const std::string& rule) {
    CAPTURE(flags);
    CHECK_THROWS_WITH_AS(parsed(flags), doctest::Contains(rule.c_str()), CLI::ValidationError);
  };
  says(mod + " --capture gain", "gain: must be NAME=FILE.npy, NAME=NUMBER");
  says(mod + " --capture gain:f64", "must have a type among f16, bf16, f32, i32, i64, u8, bool");
  says(mod + " --capture gain:f32:-1", "must end in a number of dimensions");
  says(mod + " --capture gain:f32:5", "captures[0].dimensions = 5, must be in -2..4");
  says(mod + " --capture gain:u8", "captures[0].type = 5, must be f32, i32, i64 or boolean of a number");
  says(mod + " --capture 2x=1", "captures[0].name = 2x, must be an identifier");
  says(mod + " --capture x=" + (dir / "none.npy").string(), "none.npy: No such file");
  says(" --capture gain=1", "texts read captures: pass --score-bias, --score-mod or --score-mask");
  CHECK_THROWS_WITH_AS(benchmarked(mod + " --capture gain:f32"), doctest::Contains("must have a value"),
                       CLI::ValidationError);
}

TEST_CASE("problem options: a file holds a bias") {
  const TemporaryDirectory dir;
  const auto texts = [](const std::string& flags) { return score_texts(parsed(flags).score_text); };
  const auto file = [&](const std::vector<std::int64_t>& shape) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    tools::write_npy(dir / "x.npy", {shape, std::vector<float>(count, 1)});
    return (dir / "x.npy").string();
  };
  const ScoreTexts fast = texts("--bias " + file({2, 1, 3, 8}));
  CHECK(fast.bias.text == "return bias_tensor(at);");
  REQUIRE(fast.captures.size() == 1);
  CHECK(fast.captures[0].type == CaptureType::f32);
  CHECK(fast.captures[0].dimensions == CaptureSpec::kPerScore);
  CHECK(texts("--bias " + file({3, 8})).bias.text == "return bias_tensor(at);");
  const ScoreTexts slow = texts("--bias " + file({2, 1, 3, 7}));
  CHECK(slow.bias.text == "return bias_tensor(at.batch, 0, at.query, at.key);");
  CHECK(slow.captures[0].dimensions == 4);

  write_text(dir / "mod", "return score + gain() * pair( at );");
  write_text(dir / "bias", "return 1.0f;");
  const std::string path = file({1, 4, 3, 8}), mod = " --score-mod " + (dir / "mod").string();
  const std::string pair = " --capture gain=2.0 --capture pair=" + path;
  for (const std::string& flags : {"--bias " + path + mod + pair, pair + mod + " --bias " + path}) {
    const ScoreTexts both = texts(flags);
    REQUIRE(both.captures.size() == 3);
    CHECK(both.captures[1].name == "pair");
    CHECK(both.captures[1].dimensions == CaptureSpec::kPerScore);
    CHECK(both.captures[2].name == "bias_tensor");
    CHECK(both.mod.text == "return score + gain() * pair( at );");
  }
  CHECK(texts(mod + " --capture gain:f32 --capture pair:bf16:4").captures[1].dimensions == 4);
  const auto says = [&](const std::string& flags, const char* rule) {
    CAPTURE(flags);
    CHECK_THROWS_WITH_AS(parsed(flags), doctest::Contains(rule), CLI::ParseError);
  };
  tools::write_npy(dir / "row.npy", {{8}, std::vector<float>(8, 1)});
  says("--bias " + (dir / "row.npy").string(), "row.npy = f32 (8,), must be f16 or f32 of 2 to 4 dimensions");
  tools::write_npy(dir / "ids.npy", {{2, 4}, std::vector<std::int32_t>(8, 1)});
  says("--bias " + (dir / "ids.npy").string(), "ids.npy = i32 (2, 4), must be f16 or f32");
  says("--bias " + path + " --score-bias " + (dir / "bias").string(), "--score-bias excludes --bias");
  says("--bias " + (dir / "none.npy").string(), "none.npy");
}

TEST_CASE("problem options: precompile reads the flags of traits back as those traits") {
  const AttentionProblem unusual = {
      .dtype = DType::bf16, .head_dim = 192, .head_dim_v = 128, .mask = MaskKind::causal_top_left};
  const AttentionProblem windows = {
      .head_dim = 64, .window_left = 7, .window_right = 9, .alibi = true, .sinks = true};
  const AttentionProblem pages = {.head_dim = 64, .varlen = true, .page_size = 16};
  for (const PlannedProblem& problem :
       {PlannedProblem({.head_dim = 64}, {}), PlannedProblem(unusual, {RowAlignment::bytes16_any_order}),
        PlannedProblem(pages, {}), PlannedProblem({.head_dim = 64, .window_left = 0, .softcap = true}, {}),
        PlannedProblem(windows, {})}) {
    const AttentionTraits traits = traits_of(problem);
    CAPTURE(flags_of(traits));
    const std::vector<PlannedProblem> read = precompiled(flags_of(traits));
    REQUIRE(read.size() == 1);
    CHECK(traits_of(read[0]) == traits);
  }
}

TEST_CASE("problem options: each variant in the words of each verb") {
  const AttentionProblem problem;
  AttentionProblem::visit(
      [&]<class Value>(const char* name, FieldRole, const Value&) {
        if constexpr (kIsVariant<Value>) {
          CAPTURE(std::string(name));
          const std::string flag = flag_of(name), number = kIsOptional<Value> ? " 512" : "";
          const std::string pages = flag == "--missing-pages" ? " --varlen --page-size 16" : "";
          const auto has = [&](const AttentionProblem& p) {
            bool found = false;
            AttentionProblem::visit(
                [&](const std::string_view field, FieldRole, const auto& value) {
                  if (field == name) found = value != std::decay_t<decltype(value)>{};
                },
                p);
            return found;
          };
          CHECK(has(parsed(flag + number + pages)));
          CHECK_FALSE(has(parsed("")));
          if (pages.empty()) {  // no verb benchmarks lists of keys
            for (const AttentionProblem& p : benchmarked("--causal no " + flag + number)) CHECK(has(p));
            for (const AttentionProblem& p : benchmarked("--causal no")) CHECK_FALSE(has(p));
            CHECK(benchmarked(flag + number).size() == benchmarked("").size());
          }

          const std::string one = "--head-dim 64 --dtype f16 --causal no" + pages + " ";
          CHECK(precompiled(one).size() == 1);
          for (const std::string& yes : {flag, flag + " yes"}) {
            const auto made = precompiled(one + yes);
            REQUIRE(made.size() == 1);
            CHECK(has(made[0]));
          }
          CHECK_FALSE(has(precompiled(one + flag + " no").at(0)));
          const auto both = precompiled(one + flag + " both");
          REQUIRE(both.size() == 2);
          CHECK(has(both[0]) != has(both[1]));
          CHECK_THROWS_AS(precompiled(one + flag + " 512"), CLI::ValidationError);
        }
      },
      problem);
}

TEST_CASE("problem options: widths are numbers of 0 or more") {
  const PlannedProblem p = parsed("--window-left 4096 --window-right 0 --softcap --sinks");
  CHECK(p.window_left == 4096);
  CHECK(p.window_right == 0);
  CHECK(variants_of(p) == "window_left 4096 window_right 0 softcap sinks");
  CHECK(variants_of(traits_of(p)) == "window_left window_right softcap sinks");
  CHECK(variants_of(parsed("")).empty());
  CHECK_THROWS_WITH_AS(parsed("--window-left -1"), doctest::Contains("window_left = -1, must be at least 0"),
                       CLI::ValidationError);
  CHECK_THROWS_WITH_AS(benchmarked("--window-right -2 --causal no"), doctest::Contains("window_right = -2"),
                       CLI::ValidationError);
  CHECK_THROWS_AS(parsed("--window-left x"), CLI::ConversionError);
  CHECK_THROWS_AS(parsed("--window-left"), CLI::ArgumentMismatch);
  CHECK_THROWS_AS(parsed("--softcap 30"), CLI::ExtrasError);
}

TEST_CASE("problem options: a pack for a model with alternating layers") {
  const auto made = precompiled("--head-dim 256 --dtype bf16 --causal yes --window-left both --softcap");
  REQUIRE(made.size() == 2);
  CHECK(to_string(traits_of(made[0])) == "bf16_d256_causal_bottom_right_softcap");
  CHECK(to_string(traits_of(made[1])) == "bf16_d256_causal_bottom_right_window_left_softcap");
  CHECK(precompiled("--window-left both --window-right both --softcap both").size() ==
        8 * precompiled("").size());
}

TEST_CASE("problem options: sizes, and the short words for them") {
  const PlannedProblem p = parsed("--batch 3 --heads 8 --heads-kv 2 --seqlen 100 --seqlen-k 0 --causal");
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
