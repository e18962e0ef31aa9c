// A pack made by precompile, and which kernels run if only the pack is available.
#include <api/precompile.h>
#include <autotune/cached_choices.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/config_space.h>
#include <generator/kernel_source.h>
#include <tests/support/captured_log.h>
#include <tests/support/fake_compiler.h>
#include <tests/support/temporary_directory.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

PlannedProblem traits(int head_dim, MaskKind mask = MaskKind::none, int head_dim_v = 0,
                      const PlanOptions& options = {}) {
  return {{.head_dim = head_dim, .head_dim_v = head_dim_v, .mask = mask}, options};
}

/// Makes requests as a server gets them: prefixes, single queries, prefill chunks and long prompts, with
/// groups of any size.
class RandomProblems {
 public:
  template <class Problem>
  Problem with_traits_of(Problem p) {
    const bool is_chunk = within(0, 2) == 0;  // one or two sequences over a long cache
    p.batch = within(1, is_chunk ? 2 : 64);
    p.heads_kv = within(1, is_chunk ? 4 : 16);
    p.heads_q = p.heads_kv * group();
    p.seqlen_q = is_chunk ? within(1, 1024) : length();
    p.seqlen_k = is_chunk ? p.seqlen_q + length() : within(0, 1) == 0 ? p.seqlen_q : length();
    if (p.window_left) p.window_left = length() - 1;
    if (p.window_right) p.window_right = length() - 1;
    if (p.attention_chunk) p.attention_chunk = length();
    if (p.varlen && within(0, 1) == 0) p.total_q = p.batch * within(1, p.seqlen_q);
    if (p.page_size > 0) {
      p.page_count = within(1, p.batch * ((p.seqlen_k + p.page_size - 1) / p.page_size));
    } else if (p.varlen && within(0, 1) == 0) {
      p.total_k = p.batch * within(1, p.seqlen_k);
    }
    return p.normalized();
  }
  template <class Values>
  const auto& one_of(const Values& values) {
    return values[static_cast<std::size_t>(within(0, static_cast<std::int64_t>(std::size(values)) - 1))];
  }

 private:
  std::int64_t within(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  /// Returns a group size that is often small and often a power of two.
  std::int64_t group() {
    const std::int64_t kind = within(0, 2);
    return kind == 0 ? std::int64_t{1} << within(0, 7) : kind == 1 ? within(1, 16) : within(1, 130);
  }
  /// Returns a length; short ones are as frequent as long ones.
  std::int64_t length() {
    return static_cast<std::int64_t>(std::exp2(std::uniform_real_distribution<double>(0, 18)(engine_)));
  }
  std::mt19937_64 engine_{1};
};

PlannedProblem paged(int page_size, int head_dim, MaskKind mask = MaskKind::none) {
  return {{.head_dim = head_dim, .mask = mask, .varlen = true, .page_size = page_size, .page_count = 1}, {}};
}

const std::vector<PlannedProblem> kTraits = {
    traits(64),
    traits(64, MaskKind::causal_bottom_right),
    traits(128),
    traits(128, MaskKind::causal_bottom_right),
    traits(256, MaskKind::causal_bottom_right),
    traits(72, MaskKind::causal_top_left, 40),
    traits(192),
    traits(128, MaskKind::none, 0, {RowAlignment::element}),
    traits(64, MaskKind::causal_bottom_right, 0, {RowAlignment::bytes16_any_order}),
    PlannedProblem(
        {.head_dim = 128, .mask = MaskKind::causal_bottom_right, .window_left = 0, .softcap = true}, {}),
    PlannedProblem({.head_dim = 64, .window_left = 0, .window_right = 0, .sinks = true}, {}),
    PlannedProblem({.head_dim = 256, .window_right = 0, .alibi = true}, {}),
    PlannedProblem({.head_dim = 128, .mask = MaskKind::causal_bottom_right, .attention_chunk = 1}, {}),
    PlannedProblem({.head_dim = 64, .attention_chunk = 1, .varlen = true}, {}),
    PlannedProblem({.head_dim = 64, .dropout = true}, {}),
    PlannedProblem({.head_dim = 64, .varlen = true}, {}),
    PlannedProblem({.head_dim = 128, .mask = MaskKind::causal_bottom_right, .varlen = true}, {}),
    PlannedProblem({.head_dim = 64, .window_left = 0, .window_right = 0, .varlen = true}, {}),
    PlannedProblem({.head_dim = 128, .varlen = true}, {RowAlignment::element}),
    paged(1, 128, MaskKind::causal_bottom_right),
    paged(7, 64),
    traits(64, MaskKind::causal_top_left),
    paged(16, 128),
    paged(64, 256, MaskKind::causal_bottom_right),
    paged(256, 128, MaskKind::causal_bottom_right),
    paged(100000, 64),
    PlannedProblem({.head_dim = 128,
                    .window_left = 0,
                    .window_right = 0,
                    .varlen = true,
                    .page_size = 16,
                    .page_count = 1},
                   {}),
    PlannedProblem({.head_dim = 128, .mask = MaskKind::causal_top_left, .varlen = true}, {}),
    PlannedProblem({.head_dim = 128, .mask = MaskKind::causal_bottom_right, .dropout = true, .varlen = true},
                   {}),
    PlannedProblem({.head_dim = 192,
                    .head_dim_v = 128,
                    .window_left = 0,
                    .varlen = true,
                    .page_size = 64,
                    .page_count = 1},
                   {})};

/// Returns a record with a config that the heuristic does not choose.
TuningRecord tuned_record(const PlannedProblem& p) {
  TuningRecord record;
  record.device = "Some GPU";
  record.arch = "sm_90a";
  record.sm_count = 114;
  record.bucket = bucket_of(p);
  record.config = parse_config(
      "kernel=forward_sm90,tile_m=64,tile_n=96,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=2");
  record.us = 90;
  record.heuristic_us = 100;
  return record;
}

PlannedProblem decoding() {
  PlannedProblem p = traits(64);
  p.heads_q = 64;
  p.heads_kv = 8;
  p.seqlen_q = 100;
  p.seqlen_k = 4096;
  return p;
}

PrecompileOptions for_plans_with(const PlanOptions& plan) {
  PrecompileOptions options;
  options.plans = {plan};
  return options;
}

/// Makes a pack in `directory`, with a compiler that takes no time.
std::vector<PrecompiledKernel> make_pack(const std::filesystem::path& directory,
                                         const std::vector<AttentionProblem>& problems,
                                         const std::string& refuses = {},
                                         std::optional<KernelConfig> pinned = std::nullopt) {
  ChoiceSettings settings;
  settings.pinned = pinned;
  TuningStore store("", {}, shipped_records());
  ConfigChooser chooser(settings, store);
  const auto compiler = std::make_shared<FakeCompiler>();
  compiler->refuses = refuses;
  KernelCache cache(compiler, {}, std::make_shared<DiskCache>(directory, kReadWrite), JitMode::on);
  const auto requests = kernel_requests(problems, {"sm_90a"}, for_plans_with({}), chooser);
  return make_kernels(requests.kernels, cache, 2, nullptr);
}

/// Returns a context that has only the pack.
std::unique_ptr<Context> deployed(const TemporaryDirectory& dir) {
  ContextOptions options;
  options.cache_dir = (dir / "own").string();
  options.read_only_caches = {(dir / "pack").string()};
  options.tune = TuneMode::now;
  options.jit = JitMode::off;
  return std::make_unique<Context>(options);
}

/// A config that the heuristic does not choose.
const KernelConfig kSmall = parse_config("tile_m=64,tile_n=48,warps=4,stages=1");

}  // namespace

TEST_CASE(
    "deployment: the kernels precompiled for some traits are all that any problem with these traits uses") {
  const Target targets[] = {{*find_arch("sm_90a"), "NVIDIA H100 80GB HBM3", 132},
                            {*find_arch("sm_90a"), "NVIDIA H200", 132},
                            {*find_arch("sm_90a"), "Some GPU", 114},
                            {*find_arch("sm_80"), "NVIDIA A100-SXM4-80GB", 108},
                            {*find_arch("sm_120"), "", 0},
                            {interpreter_arch(), "interpreter", 132}};
  ChoiceSettings settings;
  TuningStore store("", {}, shipped_records());
  PlannedProblem one_query = decoding();
  one_query.seqlen_q = 1;
  for (const PlannedProblem& p : {decoding(), one_query}) store.add(tuned_record(p));
  ConfigChooser chooser(settings, store);
  std::map<std::string, std::string> keys;  // cached, because rendering takes longer than choosing
  const auto key_of = [&](const PlannedProblem& p, const Arch& arch, const KernelConfig& config) {
    std::string& key = keys[to_string(traits_of(p)) + std::string(arch.name) + to_string(config)];
    if (key.empty()) key = render({traits_of(p), config, arch}).key;
    return key;
  };
  std::set<std::string> made;
  std::size_t records = 0;
  for (const PlannedProblem& p : kTraits) {
    const std::vector<std::string> archs = {"sm_90a", "sm_80", "sm_120", "interpreter"};
    const auto requests = kernel_requests({p}, archs, for_plans_with(p), chooser);
    std::set<std::string> distinct;
    std::map<std::string, std::size_t> made_for;
    for (const KernelRequest& request : requests.kernels) {
      CHECK(request.row.error.empty());
      CHECK(distinct.insert(request.row.key).second);
      ++made_for[request.row.arch];
    }
    CHECK(made_for.size() == archs.size());
    // Without records there are few kernels, because only lengths and split KV distinguish them. Each record
    // adds at most one.
    for (const auto& [arch, count] : made_for)
      CHECK(count <= (arch == "sm_90a" ? 12 : 8) + requests.records.size());
    made.merge(distinct);
    records += requests.records.size();
  }
  CHECK(records == 2);

  settings.jit = JitMode::off;
  RandomProblems random;
  int uncovered = 0;
  std::set<ConfigOrigin> origins;
  for (int i = 0; i < 30000; ++i) {
    const PlannedProblem p = i % 50 == 0   ? decoding()
                             : i % 50 == 1 ? one_query
                                           : random.with_traits_of(random.one_of(kTraits));
    const Target& target = random.one_of(targets);
    const ConfigChoice choice = chooser.choose(p, target);
    origins.insert(choice.origin);
    if (made.count(key_of(p, target.arch, choice.config)) == 1) continue;
    if (++uncovered == 1)
      FAIL_CHECK(to_string(p), " on ", target.device, ": ", to_string(choice.config), ", ", choice.reason);
  }
  CHECK(uncovered == 0);
  CHECK(origins.size() == 4);  // heuristic, exact record, near record, another GPU's record
}

TEST_CASE("deployment: with a whole pack every problem runs the kernel that was chosen for it") {
  const TemporaryDirectory dir;
  const std::vector<AttentionProblem> packed = {traits(64), traits(128, MaskKind::causal_bottom_right)};
  make_pack(dir / "pack", packed);
  const auto context = deployed(dir);
  const CapturedLog log;
  RandomProblems random;
  for (int i = 0; i < 200; ++i) {
    const AttentionProblem p = random.with_traits_of(random.one_of(packed));
    CAPTURE(to_string(p));
    const KernelReport e = context->explain(p, "sm_90a").kernels.at(0);
    CHECK(e.config_origin != ConfigOrigin::fallback);
    CHECK(e.origin != KernelOrigin::compiled);
  }
  CHECK(log.lines() == 0);
}

TEST_CASE("deployment: without its kernel a problem runs the most similar cached one, and says so once") {
  const TemporaryDirectory dir;
  make_pack(dir / "pack", {traits(64), traits(64, MaskKind::causal_bottom_right)}, {}, kSmall);
  const auto context = deployed(dir);
  const CapturedLog log;
  AttentionProblem p = decoding();
  for (int i = 0; i < 3; ++i) {
    ++p.seqlen_k;
    const KernelReport e = context->explain(p, "sm_90a").kernels.at(0);
    CHECK(e.config == kSmall);
    CHECK(e.config_origin == ConfigOrigin::fallback);
    CHECK(to_string(e.config_origin) == "fallback");
    CHECK(e.config_reason.find("cached kernel 1 of 1 that can compute this problem") == 0);
    CHECK(e.config_reason.find("; instead of kernel=forward_sm90,") != std::string::npos);
    CHECK(e.config_reason.find("no cache holds this kernel, and FA2_JIT=off") != std::string::npos);
  }
  CHECK(log.lines() == 1);
  CHECK(log.has("f16_d64_none with kernel=forward_sm80,tile_m=64,tile_n=48"));

  // Kernels of other traits cannot replace it: the error names the command.
  CHECK_THROWS_AS(context->explain(traits(128), "sm_90a"), Unavailable);
  CHECK_THROWS_AS(context->explain(traits(64), "sm_80"), Unavailable);
}

TEST_CASE("deployment: a pack holds the replacement of a refused kernel, which runs") {
  const TemporaryDirectory dir;
  const CapturedLog log;
  const auto rows = make_pack(dir / "pack", {traits(64)}, "kernel=forward_split");
  for (const PrecompiledKernel& row : rows) CHECK(row.error.empty());
  const auto context = deployed(dir);
  AttentionProblem p = decoding();
  p.heads_q = 56;
  p.seqlen_q = 1;
  const KernelReport e = context->explain(p, "sm_90a").kernels.at(0);
  CHECK(e.heads_per_tile == 7);
  CHECK(e.config.kernel != KernelId::forward_split);
  CHECK(e.config_reason.find("kernel=forward_split,") != std::string::npos);
  CHECK(e.config_reason.find(": spills (pretender 1.0)") != std::string::npos);
  CHECK(log.has(": spills (pretender 1.0)"));
}

TEST_CASE("deployment: a cached kernel replaces another only if it can compute the problem") {
  const Arch& arch = *find_arch("sm_90a");
  const PlannedProblem p = decoding().normalized();
  const auto tiles = [](int tile_m, int tile_n) {
    KernelConfig config = tuned_record(decoding()).config;
    config.tile_m = tile_m;
    config.warps = tile_m / 16;
    config.ctas_per_sm = 128 / tile_m;
    config.tile_n = tile_n;
    return config;
  };
  const auto spec = [&](const PlannedProblem& of, const KernelConfig& config) {
    return render({traits_of(of), config, arch}).spec;
  };
  const ConfigChoice wanted{tiles(64, 64), ConfigOrigin::heuristic, "", std::nullopt};
  const ConfigChoice next{tiles(128, 64), ConfigOrigin::heuristic, "the next one", std::nullopt};
  const std::vector<std::string> cached = {spec(p, kSmall),
                                           spec(p, tiles(64, 16)),
                                           spec(p, tiles(64, 32)),
                                           spec(p, tiles(64, 32)),
                                           spec(p, wanted.config),  // another version: its key was not found
                                           spec(traits(128), tiles(64, 64)),
                                           spec(p, kSmall) + ",warp_specialization=1",
                                           ""};
  const auto configs = [&](const std::vector<std::string>& specs) {
    std::vector<KernelConfig> list;
    for (const ConfigChoice& choice : cached_choices(wanted, {next}, specs, p, arch))
      list.push_back(choice.config);
    return list;
  };
  CHECK(configs(cached) == std::vector{tiles(64, 32), tiles(64, 16), kSmall});
  std::vector<std::string> more = cached;
  more.push_back(spec(p, next.config));
  CHECK(configs(more) == std::vector{next.config, tiles(64, 32), tiles(64, 16), kSmall});
  CHECK(cached_choices(wanted, {next}, more, p, arch)[0].reason == "the next one");
  CHECK(configs({}).empty());
}
