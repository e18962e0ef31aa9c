// A pack made by precompile.
#include <api/precompile.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/kernel_source.h>
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

AttentionProblem traits(int head_dim, MaskKind mask = MaskKind::none, int head_dim_v = 0,
                        RowAlignment alignment = RowAlignment::bytes16) {
  return {DType::f16, mask, alignment, head_dim, head_dim_v};
}

/// What a server may meet: prefixes, single queries and long prompts, of groups that are powers of two or not.
class RandomProblems {
 public:
  AttentionProblem with_traits_of(AttentionProblem p) {
    p.batch = within(1, 64);
    p.heads_kv = within(1, 16);
    p.heads_q = p.heads_kv * (within(0, 1) == 0 ? std::int64_t{1} << within(0, 7) : within(1, 130));
    p.seqlen_q = length();
    p.seqlen_k = within(0, 1) == 0 ? p.seqlen_q : length();
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
  /// Short ones are as frequent as long ones.
  std::int64_t length() {
    return static_cast<std::int64_t>(std::exp2(std::uniform_real_distribution<double>(0, 18)(engine_)));
  }
  std::mt19937_64 engine_{1};
};

const std::vector<AttentionProblem> kTraits = {
    traits(64),
    traits(64, MaskKind::causal_bottom_right),
    traits(128),
    traits(128, MaskKind::causal_bottom_right),
    traits(256, MaskKind::causal_bottom_right),
    traits(72, MaskKind::causal_top_left, 40),
    traits(192),
    traits(128, MaskKind::none, 0, RowAlignment::element),
    traits(64, MaskKind::causal_bottom_right, 0, RowAlignment::bytes16_any_order)};

/// Packs 8 heads where the heuristic does not.
TuningRecord tuned_record(const AttentionProblem& p) {
  TuningRecord record;
  record.device = "Some GPU";
  record.arch = "sm_90a";
  record.sm_count = 114;
  record.bucket = bucket_of(p);
  record.config = parse_config(
      "mainloop=90,tile_m=64,tile_n=96,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=2,packed_heads=8");
  record.us = 90;
  record.heuristic_us = 100;
  return record;
}

AttentionProblem decoding() {
  AttentionProblem p = traits(64);
  p.heads_q = 64;
  p.heads_kv = 8;
  p.seqlen_q = 100;
  p.seqlen_k = 4096;
  return p;
}

/// Into `directory`, without a compiler's time.
std::vector<PrecompiledKernel> make_pack(const std::filesystem::path& directory,
                                         const std::vector<AttentionProblem>& problems) {
  const Settings settings;
  TuningStore store("", {}, shipped_records());
  ConfigChooser chooser(settings, store);
  KernelCache cache(std::make_shared<FakeCompiler>(), {},
                    std::make_shared<DiskCache>(directory, DiskCache::Access::read_write), JitMode::on);
  const auto requests = kernel_requests(problems, {"sm_90a"}, PrecompileScope::any_size, chooser);
  return make_kernels(requests.kernels, cache, 2, nullptr);
}

}  // namespace

TEST_CASE("deployment: what is precompiled for some traits is all that any problem of theirs is given") {
  const Target targets[] = {{*find_arch("sm_90a"), "NVIDIA H100 80GB HBM3", 132},
                            {*find_arch("sm_90a"), "NVIDIA H200", 132},
                            {*find_arch("sm_90a"), "Some GPU", 114},
                            {*find_arch("sm_80"), "NVIDIA A100-SXM4-80GB", 108},
                            {*find_arch("sm_120"), "", 0},
                            {interpreter_arch(), "interpreter", 132}};
  Settings settings;
  TuningStore store("", {}, shipped_records());
  store.add(tuned_record(decoding()));
  ConfigChooser chooser(settings, store);
  std::map<std::string, std::string> keys;  // rendering takes longer than choosing
  const auto key_of = [&](const AttentionProblem& p, const Arch& arch, const KernelConfig& config) {
    std::string& key = keys[to_string(traits_of(p)) + std::string(arch.name) + to_string(config)];
    if (key.empty()) key = render({traits_of(p), config, arch}).key;
    return key;
  };
  std::set<std::string> made;
  const auto requests = kernel_requests(kTraits, {"sm_90a", "sm_80", "sm_120", "interpreter"},
                                        PrecompileScope::any_size, chooser);
  for (const KernelRequest& request : requests.kernels) {
    CHECK(request.row.error.empty());
    CHECK(made.insert(request.row.key).second);
  }
  CHECK(requests.records.size() == 1);

  settings.jit = JitMode::off;
  RandomProblems random;
  int uncovered = 0;
  std::set<ConfigOrigin> origins;
  for (int i = 0; i < 10000; ++i) {
    const AttentionProblem p = i % 50 == 0 ? decoding() : random.with_traits_of(random.one_of(kTraits));
    const Target& target = random.one_of(targets);
    const ConfigChoice choice = chooser.choose(p, target);
    origins.insert(choice.origin);
    if (made.count(key_of(p, target.arch, choice.config)) == 1) continue;
    if (++uncovered == 1)
      FAIL_CHECK(to_string(p), " on ", target.device, ": ", to_string(choice.config), ", ", choice.reason);
  }
  CHECK(uncovered == 0);
  CHECK(origins.size() == 4);  // heuristic, exact and near records, another GPU's
}

TEST_CASE("deployment: no more kernels than lengths and packed heads tell apart") {
  const TemporaryDirectory dir;
  for (const AttentionProblem& p : kTraits) {
    CAPTURE(to_string(p));
    const std::size_t made = make_pack(dir / "pack", {p}).size();
    CHECK(made >= 1);
    CHECK(made <= 16);
  }
}
