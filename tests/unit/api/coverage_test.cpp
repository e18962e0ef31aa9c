// A pack of every size misses no kernel of random requests, with pages, append, merge, dropout and gradients.
#include <api/coverage.h>
#include <api/precompile.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <operation/rules/validate.h>
#include <runtime/pack_builder.h>
#include <tests/support/cache_fixtures.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

/// Has the kernels of these keys, and no code.
class KeyStore final : public KernelStore {
 public:
  explicit KeyStore(std::set<std::string> keys) : keys_(std::move(keys)) {}
  std::optional<KernelBinary> load(const std::string&, const std::string& key, std::string*) const override {
    return keys_.contains(key) ? std::optional(KernelBinary()) : std::nullopt;
  }
  std::filesystem::path path_of(const std::string&, const std::string&) const override { return {}; }
  std::vector<CacheEntry> entries(bool) const override { return {}; }
  std::string text(const std::string&) const override { return {}; }
  const std::filesystem::path& path() const override { return path_; }
  std::string description() const override { return "keys"; }

 private:
  std::filesystem::path path_ = "keys";
  std::set<std::string> keys_;
};

/// Draws requests of random sizes. Their traits are those of a few random models, because each costs its own kernels.
class Requests {
 public:
  explicit Requests(unsigned seed) : random_(seed) {
    while (models_.size() < 160) models_.push_back(model());
  }

  PlanRequest next() {
    PlanRequest request = models_[below(models_.size())];
    draw_sizes(request.problem);
    request.problem = request.problem.normalized();
    if (request.target.arch.name != "sm_90a") {
      request.target.sm_count = static_cast<int>(20 + below(150));
    } else {
      request.target.device = one_of({"NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA H20"});
      request.target.sm_count = request.target.device == "NVIDIA H20" ? 78 : 132;
    }
    return request;
  }

 private:
  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return *(values.begin() + below(values.size()));
  }
  /// Returns 1 to 2^20; small magnitudes are as likely as large ones.
  std::int64_t length() { return static_cast<std::int64_t>(below(std::size_t{1} << (1 + below(20)))) + 1; }

  PlanRequest model() {
    PlanRequest request;
    request.operation = kWords<Operation>[below(std::size(kWords<Operation>))].value;
    request.target = {*find_arch(one_of({"sm_80", "sm_90a", "sm_120"})), "Some GPU", 0};
    PlannedProblem& p = request.problem;
    p.dtype = one_of({DType::f16, DType::bf16});
    p.head_dim = one_of({64, 72, 128, 192, 256});
    if (p.head_dim == 192) p.head_dim_v = 128;
    p.mask = one_of({MaskKind::none, MaskKind::causal_bottom_right});
    p.row_alignment = one_in(8) ? RowAlignment::element : RowAlignment::bytes16;
    if (one_in(6)) p.window_left = 1;
    if (one_in(6)) p.attention_chunk = 1;
    p.dropout = one_in(8);
    p.varlen = one_in(3);
    if (request.operation == Operation::backward) {
      request.gradients.dq = !one_in(4);
      request.gradients.determinism = one_of({Determinism::fastest, Determinism::bitwise});
    } else {
      if (p.varlen && one_in(2)) p.page_size = one_of({16, 64, 256});
      if (one_in(3)) p.kv_type = KvType::e4m3;
    }
    return request;
  }
  void draw_sizes(PlannedProblem& p) {
    p.batch = static_cast<std::int64_t>(1 + below(64));
    p.heads_kv = one_of({1, 2, 8, 16});
    p.heads_q = p.heads_kv * one_of({1, 4, 8});
    p.seqlen_q = one_in(3) ? static_cast<std::int64_t>(1 + below(8)) : length();
    p.seqlen_k = length();
    if (p.window_left) p.window_left = length();
    if (p.attention_chunk) p.attention_chunk = length();
    if (!p.varlen) return;
    p.total_q = std::min<std::int64_t>(p.batch * p.seqlen_q, 1 << 24);
    if (p.page_size > 0) {
      p.page_count = 1000;
    } else {
      p.total_k = std::min<std::int64_t>(p.batch * p.seqlen_k, 1 << 24);
    }
  }

  std::mt19937 random_;
  std::vector<PlanRequest> models_;
};

bool is_valid(const PlanRequest& request) {
  if (!violations_of(request.problem).empty()) return false;
  return request.operation != Operation::backward ||
         violations_of_backward(request.problem, request.gradients).empty();
}

std::set<std::string> keys_of(const std::vector<PlanRequest>& requests) {
  // Packs are made for traits: neither sizes nor GPUs of the requests are known.
  std::set<std::string> seen, keys;
  std::vector<PlanRequest> traits;
  for (PlanRequest request : requests) {
    request.target.device.clear();
    request.target.sm_count = 0;
    const std::string name = std::string(request.target.arch.name) + std::string(word_of(request.operation)) +
                             to_string(traits_of(request.problem));
    if (seen.insert(name).second) traits.push_back(request);
  }
  TuningStore records("", {}, shipped_records());
  const ChoiceSettings settings{.tune = TuneMode::stored};
  ConfigChooser chooser(settings, records);
  for (const KernelRequest& kernel : kernel_requests(traits, {}, chooser).kernels) {
    CHECK(kernel.row.error == "");
    keys.insert(kernel.row.key);
  }
  return keys;
}

}  // namespace

TEST_CASE("coverage: a pack for any size misses none of 10,000 random requests") {
  std::random_device::result_type seed = 20261126;
  if (const char* given = std::getenv("FA2_TEST_SEED")) seed = static_cast<unsigned>(std::stoul(given));
  CAPTURE(seed);
  Requests draw(seed);
  std::vector<PlanRequest> requests;
  while (requests.size() < 10'000) {
    PlanRequest request = draw.next();
    if (is_valid(request)) requests.push_back(std::move(request));
  }
  const auto pack = std::make_shared<const KeyStore>(keys_of(requests));
  const Coverage coverage = coverage_of(requests, {pack});
  CHECK(coverage.requests == 10'000);
  CHECK(coverage.kernels > 200);
  CHECK(coverage.missing.size() == 0);
  for (const MissingKernel& kernel : coverage.missing) MESSAGE(kernel.spec);
  CHECK(coverage.impossible.size() == 0);
  for (const std::string& request : coverage.impossible) MESSAGE(request);
}

TEST_CASE("coverage: a missing kernel is listed once, with the command that makes it and how many need it") {
  PlanRequest request;
  request.problem = PlannedProblem({.head_dim = 64, .seqlen_q = 512, .seqlen_k = 512}, {}).normalized();
  request.target = {*find_arch("sm_90a"), "NVIDIA H100 80GB HBM3", 132};
  PlanRequest longer = request;
  longer.problem.seqlen_q = longer.problem.seqlen_k = 513;
  const Coverage coverage = coverage_of({request, longer}, {});
  REQUIRE(coverage.missing.size() == 1);
  CHECK(coverage.missing[0].requests == 2);
  CHECK(coverage.missing[0].arch == "sm_90a");
  CHECK(coverage.missing[0].command.find("fa2 precompile --arch sm_90a") != std::string::npos);
}

TEST_CASE("coverage: a kernel that the compiler refused counts as its replacement") {
  PlanRequest request;
  request.problem = PlannedProblem({.head_dim = 64, .seqlen_q = 512, .seqlen_k = 512}, {}).normalized();
  request.target = {*find_arch("sm_80"), "", 0};
  const MissingKernel first = coverage_of({request}, {}).missing.at(0);
  const auto pack = std::make_shared<PackBuilder>("k.fa2pack");
  KernelBinary refusal = small_binary(first.key);
  refusal.arch = first.arch;
  refusal.code.clear();
  refusal.resources = {};
  refusal.refused = "spills";
  pack->store(refusal);
  const Coverage coverage = coverage_of({request}, {pack});
  REQUIRE(coverage.missing.size() == 1);
  CHECK(coverage.missing[0].key != first.key);
}
