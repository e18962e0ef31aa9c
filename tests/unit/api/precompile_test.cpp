// Precompilation with a fake compiler.
#include <api/precompile.h>
#include <api/settings.h>
#include <autotune/candidates.h>
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>
#include <planning/append.h>
#include <planning/merge.h>
#include <runtime/disk_cache.h>
#include <tests/support/fake_compiler.h>
#include <tests/support/temporary_directory.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace fa2;
using fa2::test::FakeCompiler;
using fa2::test::TemporaryDirectory;

PrecompileOptions of_given_sizes() {
  PrecompileOptions options;
  options.scope = PrecompileScope::given_sizes;
  return options;
}

/// Makes the same parts as Context::precompile().
struct Setup {
  Setup() { settings.tune = TuneMode::stored; }
  std::vector<PrecompiledKernel> run(const std::vector<AttentionProblem>& problems,
                                     const std::vector<std::string>& archs, int jobs = 3,
                                     PrecompileObserver* observer = nullptr) {
    KernelCache cache(compiler, {}, std::make_shared<DiskCache>(out.path(), DiskCache::Access::read_write),
                      JitMode::on);
    return make_kernels(kernel_requests(problems, archs, options, chooser).kernels, cache, jobs, observer);
  }
  PrecompileOptions options = of_given_sizes();
  TemporaryDirectory out;
  ChoiceSettings settings;
  TuningStore store{""};
  ConfigChooser chooser{settings, store};
  std::shared_ptr<FakeCompiler> compiler = std::make_shared<FakeCompiler>();
};

AttentionProblem problem_of(int head_dim, std::int64_t seqlen, DType dtype = DType::f16) {
  AttentionProblem p;
  p.dtype = dtype;
  p.head_dim = head_dim;
  p.heads_q = 8;
  p.seqlen_q = p.seqlen_k = seqlen;
  return p;
}

class Counter final : public PrecompileObserver {
 public:
  void finished(const PrecompiledKernel& kernel, std::size_t done, std::size_t total) override {
    inside = inside || busy.exchange(true);
    keys.insert(kernel.key);
    counts.push_back(done);
    last_total = total;
    busy = false;
  }
  std::atomic<bool> busy = false;
  bool inside = false;
  std::set<std::string> keys;
  std::vector<std::size_t> counts;
  std::size_t last_total = 0;
};

}  // namespace

TEST_CASE("one row and one file for each distinct kernel, in a fixed order") {
  Setup setup;
  Counter counter;
  AttentionProblem same = problem_of(64, 1024);
  same.batch = 3;
  const auto rows =
      setup.run({problem_of(64, 1024), same, problem_of(128, 1024), problem_of(64, 1024, DType::bf16)},
                {"sm_80", "sm_90"}, 3, &counter);
  const auto names = [&] {
    std::vector<std::string> text;
    for (const auto& row : rows)
      text.push_back(row.arch + " " + to_string(traits_of({row.problem, row.options})));
    return text;
  }();
  // `same` may use another config, but the order is the same.
  std::vector<std::string> distinct = names;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  CHECK(distinct == std::vector<std::string>{"sm_80 f16_d64_none", "sm_80 f16_d128_none",
                                             "sm_80 bf16_d64_none", "sm_90a f16_d64_none",
                                             "sm_90a f16_d128_none", "sm_90a bf16_d64_none"});
  const DiskCache cache(setup.out.path(), DiskCache::Access::read_only);
  std::set<std::string> keys;
  for (const PrecompiledKernel& row : rows) {
    CHECK(row.error.empty());
    CHECK(row.origin == KernelOrigin::compiled);
    CHECK(row.resources.registers == 100);
    CHECK(row.binary_bytes == fa2::test::small_binary().code.size());
    CHECK(row.compile_ms == 5);
    CHECK(std::filesystem::exists(cache.path_of(row.arch, row.key)));
    CHECK(keys.insert(row.key).second);
  }
  CHECK(setup.compiler->compiled == static_cast<int>(rows.size()));
  CHECK(counter.keys == keys);
  CHECK_FALSE(counter.inside);
  CHECK(counter.last_total == rows.size());
  CHECK(counter.counts.size() == rows.size());
  CHECK(std::is_sorted(counter.counts.begin(), counter.counts.end()));
}

TEST_CASE("a second run finds every kernel in the directory") {
  Setup setup;
  const auto first = setup.run({problem_of(64, 1024)}, {"sm_80"});
  const auto second = setup.run({problem_of(64, 1024)}, {"sm_80"});
  REQUIRE(second.size() == 1);
  CHECK(second[0].origin == KernelOrigin::disk_cache);
  CHECK(second[0].key == first[0].key);
  CHECK(setup.compiler->compiled == 1);
}

TEST_CASE("a kernel that fails reports its error and does not affect the others") {
  Setup setup;
  setup.compiler->fails_on = "d128";
  const auto rows = setup.run({problem_of(128, 1024), problem_of(64, 1024)}, {"sm_80"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].error == "does not compile");
  CHECK(rows[0].binary_bytes == 0);
  CHECK(rows[1].error.empty());
}

TEST_CASE("the next choice replaces a refused kernel, and says so") {
  Setup setup;
  const AttentionProblem problem = problem_of(128, 1024);
  const auto table = heuristic_choices({problem.normalized(), {}}, *find_arch("sm_80"));
  setup.compiler->refuses = to_string(table[0].config);
  for (const KernelOrigin origin : {KernelOrigin::compiled, KernelOrigin::disk_cache}) {
    const auto rows = setup.run({problem}, {"sm_80"});
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].error.empty());
    CHECK(rows[0].config == table[1].config);
    CHECK(rows[0].origin == origin);
    CHECK(rows[0].config_reason.find("spills (pretender 1.0)") != std::string::npos);
    CHECK(setup.compiler->compiled == 2);  // the refused one and the next, each once
  }
}

TEST_CASE("one row for each plan of a problem, if they run different kernels") {
  Setup setup;
  setup.options.plans = {{}, {RowAlignment::element}, {RowAlignment::bytes16_any_order}};
  const auto rows = setup.run({problem_of(64, 1024)}, {"sm_80"});
  REQUIRE(rows.size() == 2);  // forward_sm80: its kernels take strides in any order
  CHECK(rows[0].options == PlanOptions{});
  CHECK(rows[1].options == PlanOptions{RowAlignment::element});
  CHECK(rows[0].key != rows[1].key);
}

TEST_CASE("a pinned config that cannot compute a problem is an error in that problem's row") {
  Setup setup;
  setup.settings.pinned = KernelConfig{.tile_m = 128, .tile_n = 128, .stages = 3};
  setup.settings.pinned_by = "FA2_CONFIG";
  Counter counter;
  const auto rows = setup.run({problem_of(256, 1024)}, {"sm_86"}, 1, &counter);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].error.find("FA2_CONFIG") != std::string::npos);
  CHECK(rows[0].key.empty());
  CHECK(setup.compiler->compiled == 0);
  CHECK(counter.counts.size() == 1);
}

TEST_CASE("wrong problems, plans and archs are rejected before anything is compiled") {
  Setup setup;
  setup.options.plans = {{}, {static_cast<RowAlignment>(7)}};
  try {
    setup.run({problem_of(64, 1024), problem_of(7, 1024)}, {"sm_80", "sm_35"});
    FAIL("accepted");
  } catch (const InvalidRequest& error) {
    REQUIRE(error.violations().size() == 3);
    CHECK(error.violations()[0].field == "problems[1].head_dim");
    CHECK(error.violations()[1].field == "plans[1].row_alignment");
    CHECK(error.violations()[2].field == "archs[1]");
    CHECK(error.violations()[2].value == "\"sm_35\"");
  }
  CHECK(setup.compiler->compiled == 0);
}

TEST_CASE("a directory that cannot be written is an error in every row") {
  Setup setup;
  KernelCache cache(setup.compiler, {}, nullptr, JitMode::on);
  const auto requests = kernel_requests({problem_of(64, 1024)}, {"sm_80"}, setup.options, setup.chooser);
  const auto rows = make_kernels(requests.kernels, cache, 1, nullptr);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].error.find("not stored") != std::string::npos);
}

TEST_CASE("recorded configs are precompiled, and the pack holds their records") {
  Setup setup;
  const AttentionProblem p = problem_of(64, 1024).normalized();
  AttentionProblem longer = p;
  longer.seqlen_q = longer.seqlen_k = 8192;
  const KernelConfig config = search_candidates({p, {}}, *find_arch("sm_80")).at(1);
  for (const AttentionProblem& problem : {p, longer}) {
    setup.store.add({"Some GPU", "sm_80", 108, bucket_of({problem, {}}), config, 90, 100,
                     template_digest(config, *find_arch("sm_80")), "2026-01-01"});
  }
  const KernelRequests requests = kernel_requests({p, longer}, {"sm_80"}, setup.options, setup.chooser);
  REQUIRE(requests.kernels.size() == 1);
  CHECK(requests.kernels[0].row.config == config);
  CHECK(requests.records.size() == 2);

  const auto file = setup.out.path() / kTuningFile;
  for (int run = 0; run < 2; ++run) {
    TuningStore exported(file);
    export_records(requests.records, exported);
  }
  CHECK(TuningStore(file).records().size() == 2);
}

TEST_CASE("shipped configs are precompiled too; their records stay in the library") {
  const AttentionProblem p = problem_of(64, 1024).normalized();
  const KernelConfig config = search_candidates({p, {}}, *find_arch("sm_80")).at(1);
  TuningStore store("", {},
                    {{"Some GPU", "sm_80", 108, bucket_of({p, {}}), config, 90, 100,
                      template_digest(config, *find_arch("sm_80")), "2026-01-01"}});
  const ChoiceSettings settings;
  ConfigChooser chooser(settings, store);
  const KernelRequests requests = kernel_requests({p}, {"sm_80"}, of_given_sizes(), chooser);
  REQUIRE(requests.kernels.size() == 1);
  CHECK(requests.kernels[0].row.config == config);
  CHECK(requests.records.empty());
}

TEST_CASE("the backward is precompiled on request: one kernel per pass") {
  using enum KernelPass;
  Setup setup;
  CHECK(setup.run({problem_of(64, 128)}, {"sm_80"}).size() == 1);
  setup.options.backward = true;
  const auto passes_of = [&](const AttentionProblem& problem, const std::string& arch = "sm_80") {
    std::set<KernelPass> passes;
    for (const PrecompiledKernel& kernel : setup.run({problem}, {arch})) {
      CHECK(kernel.error.empty());
      passes.insert(pass_of(kernel.config));
    }
    return passes;
  };
  CHECK(passes_of(problem_of(64, 128)) == std::set{forward, delta, dq, dk_dv, dk, dv, dq_dk_dv, dq_convert});
  CHECK(passes_of(problem_of(256, 128)) ==
        std::set{forward, delta, dq, dk, dv, dq_dk_dv, dq_convert});  // dK and dV separately
  CHECK(passes_of(problem_of(64, 128), "sm_90a") ==
        std::set{forward, delta, dq, dk_dv, dk, dv, dq_dk_dv, dq_convert, ordered_dq_dk_dv});
  CHECK(passes_of(problem_of(256, 128), "sm_90a") ==
        std::set{forward, delta, dq, dk, dv, dq_dk_dv, dq_convert, ordered_dq_dk_dv});
  AttentionProblem packed = problem_of(64, 128);
  packed.varlen = true;
  CHECK(passes_of(packed) == std::set{forward, delta, dq, dk_dv, dk, dv});
  packed.sinks = true;
  CHECK(passes_of(packed) == std::set{forward, delta, dq, dk_dv, dk, dv, d_sinks});
  packed = problem_of(128, 128);
  packed.varlen = true;
  CHECK(passes_of(packed, "sm_90a") ==
        std::set{forward, delta, dq, dk_dv, dk, dv, dq_dk_dv, dq_convert, ordered_dq_dk_dv});
}

TEST_CASE("recorded configs of the backward are precompiled on request, and the pack holds their records") {
  Setup setup;
  const PlannedProblem p = PlannedProblem(problem_of(64, 1024), {}).normalized();
  const Arch& arch = *find_arch("sm_80");
  const KernelConfig config = search_candidates(p, arch, TuneScope::likely, KernelPass::dq).at(1);
  setup.store.add({"Some GPU", "sm_80", 108, bucket_of(p, KernelPass::dq), config, 90, 100,
                   template_digest(config, arch), "2026-01-01"});
  for (const PrecompileScope scope : {PrecompileScope::any_size, PrecompileScope::given_sizes}) {
    setup.options.scope = scope;
    setup.options.backward = false;
    CHECK(kernel_requests({p}, {"sm_80"}, setup.options, setup.chooser).records.empty());
    setup.options.backward = true;
    const KernelRequests requests = kernel_requests({p}, {"sm_80"}, setup.options, setup.chooser);
    CHECK(std::ranges::count_if(requests.kernels,
                                [&](const KernelRequest& r) { return r.row.config == config; }) == 1);
    REQUIRE(requests.records.size() == 1);
    CHECK(requests.records[0].bucket.pass == KernelPass::dq);
  }
}

TEST_CASE("a refused kernel of the backward is replaced by the heuristic's next") {
  Setup setup;
  setup.options.backward = true;
  const PlannedProblem problem = PlannedProblem(problem_of(64, 128), {}).normalized();
  const auto choices = heuristic_choices(problem, *find_arch("sm_80"), KernelPass::dq);
  REQUIRE(choices.size() > 1);
  setup.compiler->refuses = to_string(choices[0].config);
  const auto kernels = setup.run({problem}, {"sm_80"});
  const auto found = std::ranges::find(kernels, choices[1].config, &PrecompiledKernel::config);
  REQUIRE(found != kernels.end());
  CHECK(found->error.empty());
}

TEST_CASE("the convert kernel is precompiled for each fused kernel that may need it") {
  Setup setup;
  setup.options.backward = true;
  const PlannedProblem problem = PlannedProblem(problem_of(64, 128), {}).normalized();
  const auto choices = heuristic_choices(problem, *find_arch("sm_90a"), KernelPass::dq_dk_dv);
  REQUIRE_FALSE(choices.empty());
  const auto kernels = setup.run({problem}, {"sm_90a"});
  const auto is_made = [&](const KernelConfig& config) {
    const auto found = std::ranges::find(kernels, config, &PrecompiledKernel::config);
    return found != kernels.end() && found->error.empty();
  };
  CHECK(is_made(choices[0].config));
  CHECK(is_made(conversion_of(choices[0].config).config));
}

namespace {

/// Returns the key of append()'s kernel for tensors that lie `shift` elements after a multiple of 16 bytes.
std::string append_key(const AppendProblem& problem, std::uintptr_t shift) {
  const auto at = [&](std::uintptr_t number, bool is_cache = false) {
    const bool shifts = !is_cache || problem.kv_type == KvType::same;
    return reinterpret_cast<void*>((number << 20) + (shifts ? shift * size_of(problem.dtype) : 0));
  };
  const auto contiguous = [](std::int64_t rows, std::int64_t dim) {
    return TensorStrides{rows * dim, rows * dim, dim};
  };
  const std::int64_t value_dim = problem.head_dim_v == 0 ? problem.head_dim : problem.head_dim_v;
  AppendArgs args;
  args.k_new = at(1), args.k_new_strides = contiguous(1, problem.head_dim);
  args.v_new = at(2), args.v_new_strides = contiguous(1, value_dim);
  args.k_cache = at(3, true), args.k_cache_strides = contiguous(64, problem.head_dim);
  args.v_cache = at(4, true), args.v_cache_strides = contiguous(64, value_dim);
  if (problem.rotary_dim > 0) args.cos = at(5), args.sin = at(6), args.table_stride = problem.rotary_dim / 2;
  if (problem.heads_q > 0)
    args.q = args.q_out = at(7), args.q_strides = args.q_out_strides = args.k_new_strides;
  return render(append_kernel_of(problem, operands_of(problem, args)).spec(*find_arch("sm_80"))).key;
}

std::string merge_key(const MergeProblem& problem, std::uintptr_t shift) {
  MergeArgs args;
  args.parts = reinterpret_cast<const void*>((1 << 20) + shift * 4);
  args.out = reinterpret_cast<void*>(2 << 20);
  args.parts_strides = args.out_strides = {64 * problem.head_dim, 64 * problem.head_dim, problem.head_dim};
  args.part_stride = 512 * problem.head_dim;
  return render(merge_kernel_of(problem, operands_of(problem, args)).spec(*find_arch("sm_80"))).key;
}

std::set<std::string> keys_of(const std::vector<PrecompiledKernel>& kernels, KernelId id) {
  std::set<std::string> keys;
  for (const PrecompiledKernel& kernel : kernels) {
    CHECK(kernel.error.empty());
    if (kernel.config.kernel == id) keys.insert(kernel.key);
  }
  return keys;
}

}  // namespace

TEST_CASE(
    "append() and merge() are precompiled on request: a kernel for each dtype, head dims and alignment") {
  Setup setup;
  AttentionProblem varied = problem_of(64, 128), narrow = problem_of(128, 128), bytes = problem_of(64, 128);
  varied.softcap = varied.varlen = true;
  narrow.head_dim_v = 64;
  bytes.kv_type = KvType::e4m3;
  const std::vector<AttentionProblem> problems = {problem_of(64, 128), varied, narrow, bytes};
  setup.options.plans = {{}, {RowAlignment::element}, {RowAlignment::bytes16_any_order}};
  const auto without = setup.run(problems, {"sm_80"});
  CHECK(keys_of(without, KernelId::append).empty());
  CHECK(keys_of(without, KernelId::merge).empty());
  setup.options.append = setup.options.merge = true;
  const auto kernels = setup.run(problems, {"sm_80"});
  CHECK(kernels.size() == without.size() + 8);

  std::set<std::string> appends, merges;
  for (const std::uintptr_t shift : {0, 1}) {
    for (AppendProblem p : {AppendProblem{.head_dim = 64}, AppendProblem{.head_dim = 128, .head_dim_v = 64},
                            AppendProblem{.head_dim = 64, .kv_type = KvType::e4m3}}) {
      p.cache_rows = p.page_size = 64, p.max_pages = 1;
      appends.insert(append_key(p, shift));
      p.rotary_dim = 16, p.table_rows = 64, p.heads_q = 4, p.page_size = 0;
      appends.insert(append_key(p, shift));
      p.rotary_style = RotaryStyle::interleaved, p.float32_tables = true, p.total_new = 5;
      appends.insert(append_key(p, shift));
    }
    for (const bool float32 : {false, true})
      merges.insert(merge_key(
          {.float32_parts = float32, .float32_output = !float32, .head_dim = 64, .parts = 3, .batch = 2},
          shift));
  }
  CHECK(keys_of(kernels, KernelId::append) == appends);
  CHECK(keys_of(kernels, KernelId::merge) == merges);
  CHECK(appends.size() == 6);
  CHECK(merges.size() == 2);
}
