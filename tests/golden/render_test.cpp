// Compares the rendered text of a fixed list of specs with files, and tests what a kernel's key depends on.
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <fa2/score_text.h>
#include <generator/config_header.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>
#include <generator/template_set.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace fa2;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(FA2_SOURCE_DIR) / "tests" / "golden";
constexpr std::string_view kRefresh = "; FA2_UPDATE_GOLDEN=1 rewrites the files of this test";

KernelSpec pinned(const AttentionProblem& problem, std::string_view arch, std::string_view config,
                  const PlanOptions& options = {}) {
  return {traits_of({problem, options}), parse_config(config), *find_arch(arch)};
}

/// Returns a spec with the heuristic's config for 4096 queries and keys of 16 heads.
KernelSpec guessed(AttentionProblem problem, std::string_view arch, const PlanOptions& options = {}) {
  problem.seqlen_q = problem.seqlen_k = 4096;
  problem.heads_q = problem.heads_kv = 16;
  const PlannedProblem planned(problem, options);
  return {traits_of(planned), heuristic(planned, *find_arch(arch)).config, *find_arch(arch)};
}

/// Returns the specs. Their file names are made of traits and arch, which must therefore differ.
std::vector<KernelSpec> golden_specs() {
  using enum DType;
  using enum MaskKind;
  using enum RowAlignment;
  return {
      guessed({.head_dim = 128, .mask = causal_bottom_right}, "sm_90a"),
      guessed({.head_dim = 128, .mask = causal_bottom_right, .attention_chunk = 8192}, "sm_90a"),
      guessed({.dtype = bf16, .head_dim = 128}, "sm_80"),
      guessed({.dtype = bf16, .head_dim = 64, .mask = causal_top_left}, "sm_90a", {element}),
      guessed({.dtype = bf16, .head_dim = 192, .head_dim_v = 128, .mask = causal_bottom_right}, "sm_100"),
      guessed({.dtype = bf16, .head_dim = 256}, "sm_120"),
      pinned({.head_dim = 8}, "sm_120", "tile_m=64,tile_n=128,stages=3,ctas_per_sm=3"),
      pinned({.head_dim = 64}, "sm_80", "tile_m=128,tile_n=80,stages=2,q_in_registers=1"),
      pinned({.head_dim = 72, .head_dim_v = 40, .mask = causal_bottom_right}, "sm_90a",
             "tile_m=128,tile_n=96,warps=8,stages=2,ctas_per_sm=2"),
      pinned({.dtype = bf16, .head_dim = 128, .mask = causal_top_left}, "sm_80",
             "tile_m=128,tile_n=32,warps=8,stages=4", {element}),
      pinned({.dtype = bf16, .head_dim = 128, .kv_type = KvType::e4m3}, "sm_80",
             "kernel=forward_split,tile_m=16,tile_n=16,warps=8,stages=4"),
      pinned({.head_dim = 64, .kv_type = KvType::e4m3}, "sm_90a", "kernel=append"),
      pinned({.head_dim = 256, .mask = causal_bottom_right}, "sm_100", "tile_m=64,tile_n=32,stages=3"),
      guessed({.dtype = bf16, .head_dim = 576, .head_dim_v = 512, .values_in_keys = true}, "sm_90a"),
  };
}

/// Returns the content of a golden file. It does not depend on the templates' text, so editing a template
/// changes no golden file.
std::string golden_text(const KernelSpec& spec) {
  const KernelSource source = render(spec);
  std::ostringstream text;
  text << "spec: " << source.spec << "\nmain: " << source.main.name << "\nentry: " << source.entry
       << "\nthreads: " << source.threads << "\nshared_bytes: " << source.shared_bytes << "\noptions:";
  for (const std::string& option : source.options) text << ' ' << option;
  for (const KeyPart& part : source.key_parts) {
    if (part.name != "templates") text << "\nkey part " << part.name << ": " << part.value;
  }
  text << "\n\n==== " << source.headers.front().name << "\n" << source.headers.front().text;
  return text.str();
}

std::string file_name(const KernelSpec& spec) {
  return to_string(spec.traits) + "_" + std::string(spec.arch.name) + ".golden";
}

std::optional<std::string> read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the first line that differs; empty if none does.
std::string difference(const std::string& golden, const std::string& rendered) {
  std::istringstream golden_lines(golden), rendered_lines(rendered);
  for (int number = 1;; ++number) {
    std::string expected, got;
    const bool has_expected = static_cast<bool>(std::getline(golden_lines, expected));
    const bool has_got = static_cast<bool>(std::getline(rendered_lines, got));
    if (!has_expected && !has_got) return golden == rendered ? "" : "the last line's end differs";
    if (has_expected && has_got && expected == got) continue;
    return "line " + std::to_string(number) + "\n  golden:   " + (has_expected ? expected : "(ends)") +
           "\n  rendered: " + (has_got ? got : "(ends)");
  }
}

/// Compares the file with `rendered`. With FA2_UPDATE_GOLDEN it first writes the file.
void check_golden(const std::filesystem::path& path, const std::string& rendered) {
  if (std::getenv("FA2_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << rendered;
  const auto golden = read(path);
  CHECK_MESSAGE(golden.has_value(), path.string(), " cannot be read", kRefresh);
  const std::string differing = difference(golden.value_or(""), rendered);
  CHECK_MESSAGE(differing.empty(), path.string(), " ", differing, kRefresh);
}

bool is_32_hex_digits(const std::string& key) {
  return key.size() == 32 && key.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string key_of(const AttentionTraits& traits, const KernelConfig& config = {},
                   std::string_view arch = "sm_80") {
  return render({traits, config, *find_arch(arch)}).key;
}

/// Returns `config` with one field changed to another value that can be rendered; nothing if there is none.
std::optional<KernelConfig> changed(const AttentionTraits& traits, KernelConfig config, std::string_view name,
                                    std::string_view arch) {
  std::optional<KernelConfig> result;
  KernelConfig::visit(config, [&](std::string_view field, std::int32_t& value) {
    if (field != name) return;
    const std::int32_t before = value;
    for (const std::int32_t other : {before + 1, before - 1, before + 16, before * 2, before / 2}) {
      if (other == before) continue;
      value = other;
      if (!result && !why_rejected({traits, config, *find_arch(arch)})) result = config;
    }
    value = before;
  });
  return result;
}

const AttentionTraits kPlain = traits_of({{.head_dim = 64}, {}});
constexpr KernelConfig kSmall{.tile_m = 64, .tile_n = 32, .stages = 1};
constexpr KernelConfig kHopper{.kernel = KernelId::forward_sm90,
                               .tile_m = 128,
                               .tile_n = 64,
                               .warps = 8,
                               .stages = 4,
                               .q_buffers = 1,
                               .schedule = 2,
                               .overlap = 1};

}  // namespace

TEST_CASE("golden: the rendered text of every listed spec") {
  // config.cuh names what differs from the embedded defaults, so stale ones would change every file.
  std::istringstream defaults(config_defaults_header());
  for (std::string line; std::getline(defaults, line);)
    if (line.starts_with("  static "))
      REQUIRE_MESSAGE(embedded_template(kDefaultsHeader).find(line) != std::string_view::npos, line,
                      " is not yet embedded: FA2_UPDATE_GOLDEN=1 writes it, then build again");
  for (const KernelSpec& spec : golden_specs()) check_golden(kFolder / file_name(spec), golden_text(spec));
}

TEST_CASE("golden: the defaults of a kernel's constants") {
  check_golden(std::filesystem::path(FA2_SOURCE_DIR) / "templates" / kDefaultsHeader,
               config_defaults_header());
}

TEST_CASE("golden: every file belongs to a listed spec") {
  std::set<std::string> listed;
  for (const KernelSpec& spec : golden_specs()) CHECK(listed.insert(file_name(spec)).second);
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".golden")) continue;
    CHECK_MESSAGE(listed.count(name) == 1, name, " belongs to no spec any more: remove it");
  }
}

TEST_CASE("key: 32 hex digits, distinct, and the same for the same spec") {
  std::set<std::string> keys;
  for (const KernelSpec& spec : golden_specs()) {
    const std::string key = render(spec).key;
    CHECK_MESSAGE(is_32_hex_digits(key), key);
    CHECK(render(spec).key == key);
    CHECK_MESSAGE(keys.insert(key).second, file_name(spec), " has the key of another spec");
  }
}

TEST_CASE("key: every tunable changes it") {
  AttentionTraits causal = kPlain;
  causal.mask = MaskKind::causal_bottom_right;
  std::set<std::string> keys;
  std::set<std::string_view> changeable;
  for (const KernelConfig& config :
       {kSmall, kHopper, default_config(KernelId::backward_dq_sm80),
        default_config(KernelId::backward_dk_dv_sm80), parse_config("kernel=backward_sm80,tile_m=128"),
        parse_config("kernel=backward_sm90,tile_n=128"),
        parse_config("kernel=forward_wide,tile_m=32,schedule=3")}) {
    AttentionTraits traits = causal;
    if (config.kernel == KernelId::forward_wide) traits.head_dim = traits.head_dim_v = 320;
    if (config.kernel == KernelId::forward_sm80)
      traits.score_text = make_score_text({.mask = "return true;"});
    if (config.kernel == KernelId::forward_sm90)
      traits.score_text = make_score_text(
          {.bias = "return pair(at);", .captures = {{"pair", CaptureType::bf16, CaptureSpec::kPerScore}}});
    CHECK(keys.insert(key_of(traits, config, "sm_90a")).second);
    for (const Tunable& tunable : kind_of(config).tunables) {
      CAPTURE(std::string(tunable.name));
      const auto other = changed(traits, config, tunable.name, "sm_90a");
      if (!other) continue;  // this kind cannot change it alone
      CHECK(keys.insert(key_of(traits, *other, "sm_90a")).second);
      changeable.insert(tunable.name);
    }
  }
  KernelConfig::visit(kSmall,
                      [&](std::string_view name, std::int32_t) { CHECK(changeable.count(name) == 1); });
}

TEST_CASE("key: every trait changes it") {
  std::set<std::string> keys = {key_of(kPlain, kSmall)};
  const auto changes = [&](auto&& change) {
    AttentionTraits traits = kPlain;
    change(traits);
    CAPTURE(to_string(traits));
    CHECK(keys.insert(key_of(traits, kSmall)).second);
  };
  changes([](AttentionTraits& t) { t.dtype = DType::bf16; });
  changes([](AttentionTraits& t) { t.mask = MaskKind::causal_bottom_right; });
  changes([](AttentionTraits& t) { t.mask = MaskKind::causal_top_left; });
  changes([](AttentionTraits& t) { t.row_alignment = RowAlignment::element; });
  for (const int dim : {56, 72}) {  // 56 pads to the tiles of 64
    changes([&](AttentionTraits& t) { t.head_dim = dim; });
    changes([&](AttentionTraits& t) { t.head_dim_v = dim; });
  }
}

TEST_CASE("key: the arch changes it") {
  std::set<std::string> keys;
  for (const Arch& arch : known_archs()) keys.insert(key_of(kPlain, kSmall, arch.name));
  CHECK(keys.size() == known_archs().size());
}

TEST_CASE("key: batch, heads and sequence lengths do not change it") {
  AttentionProblem p;
  p.head_dim = 64;
  const std::string key = key_of(traits_of({p, {}}), kSmall);
  for (std::int64_t AttentionProblem::*size :
       {&AttentionProblem::batch, &AttentionProblem::heads_q, &AttentionProblem::heads_kv,
        &AttentionProblem::seqlen_q, &AttentionProblem::seqlen_k}) {
    AttentionProblem other = p;
    other.*size = 2048;
    CHECK(key_of(traits_of({other, {}}), kSmall) == key);
  }
}
