// fa2 precompile: fills a kernel cache, also for GPUs that this machine lacks.
#include <api/context.h>
#include <api/explanation.h>
#include <api/precompile.h>
#include <core/gpu_names.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <generator/problem_text.h>
#include <tools/hf_config.h>
#include <tools/mistakes.h>
#include <tools/precompile_estimate.h>
#include <tools/progress.h>
#include <tools/table.h>
#include <tools/trait_options.h>
#include <tools/verb.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace fa2::tools {
namespace {

/// Returns i and n of "i/n"; nullopt unless 1 <= i <= n.
std::optional<std::pair<int, int>> parse_shard(const std::string& text) {
  int i = 0, n = 0, end = 0;
  const bool is_whole = std::sscanf(text.c_str(), "%9d/%9d%n", &i, &n, &end) == 2 && end == std::ssize(text);
  return is_whole && i >= 1 && i <= n ? std::optional(std::pair(i, n)) : std::nullopt;
}

struct PrecompileFlags {
  std::vector<std::string> archs;
  TraitOptions traits;
  std::string out;
  int jobs = 0;
  bool backward = false, append = false, merge = false;
  bool dry_run = false;
  std::string requests;  ///< a file of requests; empty: flags or `hf` select the kernels
  bool exact = false;
  std::string shard = "1/1";
  std::string hf;     ///< a config.json or its folder; empty: flags select the kernels
  Lines taken_of_hf;  ///< the values that were read from `hf`

  std::vector<std::string> arch_names() const {
    std::vector<std::string> names;
    for (const std::string& name : archs) names.emplace_back(arch_of(name).name);
    return names;
  }
  /// Returns none with --requests, which stand for themselves.
  std::vector<AttentionProblem> problems() const {
    return requests.empty() ? traits.problems(backward) : std::vector<AttentionProblem>();
  }
  PrecompileOptions settings() const {
    PrecompileOptions settings;
    settings.out = out;
    settings.requests = requests;
    if (exact) settings.scope = PrecompileScope::given_sizes;
    const auto [i, n] = parse_shard(shard).value();
    settings.shard = i - 1;
    settings.shards = n;
    settings.jobs = jobs;
    settings.plans = traits.plans();
    settings.backward = backward;
    settings.append = append;
    settings.merge = merge;
    return settings;
  }
};

class Observer final : public PrecompileObserver {
 public:
  explicit Observer(bool json) : json_(json) {}

  void finished(const PrecompiledKernel& kernel, std::size_t done, std::size_t total) override {
    if (!progress_)
      progress_ = std::make_unique<Progress>("precompiling", total, json_, Progress::Elsewhere::tenths);
    progress_->update(
        done, fmt::format("{} {}", kernel.arch, to_string(traits_of({kernel.problem, kernel.options}))));
  }

 private:
  bool json_;
  std::unique_ptr<Progress> progress_;
};

std::vector<std::string> cells_of(const PrecompiledKernel& kernel) {
  const KernelResources& r = kernel.resources;
  return {kernel.key.substr(0, kShortKey),
          kernel.arch,
          to_string(traits_of({kernel.problem, kernel.options})),
          fmt::format("{}", r.registers),
          fmt::format("{}", r.spill_store_bytes + r.spill_load_bytes),
          fmt::format("{}", r.static_shared_bytes + r.dynamic_shared_bytes),
          fmt::format("{}", kernel.binary_bytes),
          fmt::format("{:.0f}", kernel.compile_ms),
          kernel.error.empty() ? std::string(to_string(kernel.origin)) : "failed",
          to_string(kernel.config)};
}

/// Returns the variants among attention's kernels, in order of appearance: "plain", "window_left softcap".
std::vector<std::string> variants_of(const std::vector<PrecompiledKernel>& kernels) {
  std::vector<std::string> all;
  for (const PrecompiledKernel& kernel : kernels) {
    if (pass_of(kernel.config) == KernelPass::rows) continue;  // they have no variants
    std::string variants = fa2::variants_of(traits_of({kernel.problem, kernel.options}));
    if (variants.empty()) variants = "plain";
    if (std::ranges::find(all, variants) == all.end()) all.push_back(std::move(variants));
  }
  return all;
}

struct Totals {
  std::size_t compiled = 0;
  std::size_t cached = 0;
  std::size_t failed = 0;
  std::size_t bytes = 0;
  double compile_ms = 0;  ///< of the kernels compiled now
};

Totals totals_of(const std::vector<PrecompiledKernel>& kernels) {
  Totals totals;
  for (const PrecompiledKernel& kernel : kernels) {
    const bool is_compiled = kernel.error.empty() && kernel.origin == KernelOrigin::compiled;
    totals.failed += !kernel.error.empty();
    totals.compiled += is_compiled;
    totals.cached += kernel.error.empty() && !is_compiled;
    totals.bytes += kernel.binary_bytes;
    if (is_compiled) totals.compile_ms += kernel.compile_ms;
  }
  return totals;
}

void print_kernels(const std::vector<PrecompiledKernel>& kernels, const Totals& totals, double seconds) {
  Table table({{"key"},
               {"arch"},
               detail("spec"),
               number("registers"),
               number("spills"),
               number("shared"),
               number("cubin"),
               number("ms"),
               {"origin"},
               detail("config")});
  for (const PrecompiledKernel& kernel : kernels) table.add(cells_of(kernel));
  print(table);
  const std::string summary = fmt::format(
      "{} kernels: {} compiled, {} already cached, {} failed; {} of cubins; {:.1f} s ({:.1f} s of "
      "compiling)\n"
      "Variants: {}",
      kernels.size(), totals.compiled, totals.cached, totals.failed, bytes_text(totals.bytes), seconds,
      totals.compile_ms / 1000, fmt::join(variants_of(kernels), ", "));
  print_paragraph(summary);
}

/// Replaces flags by the model's config.json; a --dtype that was given stays.
void take_model(PrecompileFlags& options, bool has_dtype) {
  HfModel model = read_hf_model(options.hf);
  if (!has_dtype && !model.dtype)
    throw InvalidRequest({{options.hf + ": dtype", "neither float16 nor bfloat16",
                           "must be one of them: add --dtype f16 or bf16"}});
  if (has_dtype) model.dtype.reset();
  options.traits.take(model);
  options.taken_of_hf = std::move(model.taken);
  options.taken_of_hf.emplace_back("flags", options.traits.flags());
}

Json json_of(const Lines& lines) {
  Json json = Json::object();
  for (const auto& [label, value] : lines) json[label] = value;
  return json;
}

/// Returns the estimated time on this machine; s.
double seconds_of(const std::vector<Estimate>& estimates, int jobs) {
  double seconds = 0;
  std::size_t kernels = 0;
  for (const Estimate& estimate : estimates) {
    seconds += estimate.seconds;
    kernels += estimate.kernels;
  }
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t threads = jobs > 0 ? static_cast<std::size_t>(jobs) : cores;
  return seconds /
         static_cast<double>(std::clamp<std::size_t>(threads, 1, std::max<std::size_t>(kernels, 1)));
}

int dry_run(const PrecompileFlags& options, bool json) {
  Context context;
  const KernelRequests requests =
      kernel_requests(options.problems(), options.arch_names(), options.settings(), context.impl().chooser);
  const std::vector<Estimate> estimates = estimates_of(requests.kernels);
  const double seconds = seconds_of(estimates, options.jobs);
  if (json) {
    Json archs = Json::array();
    for (const Estimate& e : estimates)
      archs.push_back(
          {{"arch", e.arch}, {"kernels", e.kernels}, {"binary_bytes", e.bytes}, {"core_seconds", e.seconds}});
    print_json({{"archs", archs},
                {"seconds", seconds},
                {"source", kEstimateSource},
                {"hf", json_of(options.taken_of_hf)}});
    return kOk;
  }
  Table table({{"arch"}, number("kernels"), number("size"), number("on one core")});
  for (const Estimate& e : estimates)
    table.add({e.arch, fmt::format("{}", e.kernels), bytes_text(static_cast<std::uint64_t>(e.bytes)),
               duration_text(e.seconds)});
  print(table);
  print_paragraph(fmt::format(
      "About {} on this machine; nothing was compiled, and kernels that a cache holds count too.\n{}",
      duration_text(seconds), kEstimateSource));
  return kOk;
}

int make(const PrecompileFlags& options, bool json) {
  const auto start = std::chrono::steady_clock::now();
  Observer observer(json);
  PrecompileOptions settings = options.settings();
  settings.observer = &observer;
  const std::vector<PrecompiledKernel> kernels =
      fa2::precompile(options.problems(), options.arch_names(), settings);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Totals totals = totals_of(kernels);
  if (json) {
    print_json({{"kernels", Json::parse(to_json(kernels))},
                {"variants", variants_of(kernels)},
                {"compiled", totals.compiled},
                {"cached", totals.cached},
                {"failed", totals.failed},
                {"binary_bytes", totals.bytes},
                {"seconds", seconds},
                {"hf", json_of(options.taken_of_hf)}});
  } else {
    print_kernels(kernels, totals, seconds);
  }
  std::fflush(stdout);
  std::set<std::string> seen;  // a missing NVRTC fails every kernel with one message
  for (const PrecompiledKernel& kernel : kernels) {
    if (!kernel.error.empty() && seen.insert(kernel.error).second) {
      fmt::print(stderr, "fa2 precompile: {}: {}\n", kernel.arch, kernel.error);
    }
  }
  return totals.failed == 0 ? kOk : kFailed;
}

/// Notes the flags that come with --hf, which sets them. CLI11 could check this, but would list all flags in
/// the help.
void note_flags_beside_hf(const CLI::App& verb, Mistakes& mistakes) {
  for (const char* flag :
       {"--head-dim", "--head-dim-v", "--causal", "--mask", "--window-left", "--window-right",
        "--attention-chunk", "--softcap", "--sinks", "--alibi", "--values-in-keys"}) {
    if (verb.count(flag) > 0) mistakes.attempt([&] { throw CLI::ExcludesError("--hf", flag); });
  }
}

/// Notes the flags that --requests leaves no use for, and a missing --arch.
void note_flags_beside_requests(const PrecompileFlags& options, const CLI::App& verb, Mistakes& mistakes) {
  if (options.requests.empty()) {
    if (options.archs.empty()) mistakes.attempt([] { throw CLI::RequiredError("--arch"); });
    if (options.exact) mistakes.attempt([] { throw CLI::RequiresError("--exact", "--requests"); });
    return;
  }
  for (const CLI::Option* flag : verb.get_options()) {
    const std::string name = flag->get_name();
    static const std::set<std::string> kAllowed = {"--help", "--json", "--arch",  "--requests", "--exact",
                                                   "--out",  "--jobs", "--shard", "--dry-run"};
    if (flag->count() > 0 && !kAllowed.contains(name))
      mistakes.attempt([&] { throw CLI::ExcludesError("--requests", name); });
  }
}

/// Takes the model, if there is one, and notes everything that is wrong.
void complete(PrecompileFlags& options, const CLI::App& verb, Mistakes& mistakes) {
  note_flags_beside_requests(options, verb, mistakes);
  if (!options.hf.empty()) {
    note_flags_beside_hf(verb, mistakes);
    mistakes.attempt([&] { take_model(options, verb.count("--dtype") > 0); });
  }
  for (const std::string& name : options.archs) mistakes.attempt([&] { arch_of(name); });
  mistakes.attempt([&] { options.traits.problems(options.backward); });
}

int run(const PrecompileFlags& options, bool json) {
  if (!options.taken_of_hf.empty() && !json) {
    print(options.taken_of_hf);
    fmt::print("\n");
  }
  return options.dry_run ? dry_run(options, json) : make(options, json);
}

void add_options(CLI::App& verb, PrecompileFlags& options) {
  add_list(verb, "--arch", options.archs, "GPU architectures, or GPUs by name: " + known_arch_names());
  options.traits.add_to(verb);
  verb.add_option("--hf", options.hf, "The kernels of a Hugging Face model: its config.json, or the folder");
  verb.add_flag("--dry-run", options.dry_run,
                "Estimate the number, size and compile time of the kernels; compile nothing");
  verb.add_flag("--backward", options.backward, "Also the kernels of the backward: dQ, dK and dV");
  verb.add_flag("--append", options.append, "Also the kernel of append(), for paged and other caches");
  verb.add_flag("--merge", options.merge, "Also the kernel of merge()");
  verb.add_option("--requests", options.requests,
                  "The kernels of requests that a program has logged by FA2_LOG_REQUESTS");
  verb.add_flag("--exact", options.exact, "Only the kernels of these sizes, on the GPUs of the requests");
  verb.add_option(
      "-o,--out", options.out,
      "Directory to fill, or pack to write if it ends in .fa2pack (default: the user's own cache)");
  verb.add_option("--shard", options.shard,
                  "The i-th of n equal parts of the work, as i/n; fa2 pack merge joins them")
      ->check([](const std::string& text) {
        return parse_shard(text) ? std::string() : "must be i/n, with 1 <= i <= n";
      });
  verb.add_option("--jobs", options.jobs, "Compiling threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

}  // namespace

Verb add_precompile(CLI::App& app) {
  CLI::App* verb = add_verb(
      app, "precompile", "Compile kernels into a pack or a cache directory. Needs NVRTC; no GPU, no driver",
      "fa2 precompile --arch a100,h100 --head-dim 64,128 --out kernels.fa2pack\n"
      "  FA2_CACHE_PATH=kernels.fa2pack FA2_JIT=off ./server\n"
      "  fa2 precompile --requests requests.jsonl --shard 1/4 --out 1.fa2pack\n"
      "  fa2 precompile --arch h100 --hf gemma-2-9b/config.json --dry-run\n"
      "  fa2 precompile --arch h100 --hf DeepSeek-V3/config.json --varlen \\\n"
      "      --page-size 64 --append --out latents.fa2pack\n"
      "  fa2 precompile --arch h100 --head-dim 256 --dtype bf16 --causal yes \\\n"
      "      --window-left both --softcap\n"
      "    (Gemma 2: softcap everywhere, every other layer with a window)\n"
      "  fa2 precompile --arch h100 --head-dim 128 --dtype bf16 --varlen \\\n"
      "      --page-size 16 --append --out kernels\n"
      "    (a server: attention over pages of 16 keys, and what fills them)",
      "For each combination of --arch, --dtype, --head-dim, --head-dim-v, the masks, --alignment and "
      "the variants this makes every kernel that may run for any batch, heads and lengths: all that "
      "the heuristic can choose or tuning records name, yours and those that ship with fa2. "
      "--dry-run counts them. --backward adds the kernels of gradients. --append and "
      "--merge add one each per dtype, head dims and alignment; rotary columns, pages, partial outputs "
      "and float32 are parameters of them. FA2_CONFIG makes one kernel per combination instead. A "
      "variant's flag alone says yes: all kernels have it. Its widths and numbers are arguments of a "
      "call.\n"
      "--requests takes the problems that a program has logged, with FA2_LOG_REQUESTS=FILE, for the GPU that "
      "it ran on or for --arch; all sizes of them, or with --exact only those.\n"
      "--hf reads dtype, head dims, windows, chunks, softcap and sinks of a model, and prints the key of "
      "each.\n"
      "GPUs are: " +
          known_gpu_names() + ".");
  const auto options = std::make_shared<PrecompileFlags>();
  add_options(*verb, *options);
  return {verb, [verb, options] { return run(*options, wants_json(*verb)); },
          [verb, options](Mistakes& mistakes) { complete(*options, *verb, mistakes); }};
}

}  // namespace fa2::tools
