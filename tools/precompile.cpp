// fa2 precompile: fill a kernel cache for GPUs that need not be here.
#include <api/explanation.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <generator/problem_text.h>
#include <tools/progress.h>
#include <tools/table.h>
#include <tools/trait_options.h>
#include <tools/verb.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

namespace fa2::tools {
namespace {

struct Options {
  std::vector<std::string> archs;
  TraitOptions traits;
  std::string out;
  int jobs = 0;
  bool backward = false, append = false, merge = false;
};

class Observer final : public PrecompileObserver {
 public:
  explicit Observer(bool json) : json_(json) {}

  void finished(const PrecompiledKernel& kernel, std::size_t done, std::size_t total) override {
    if (!progress_) progress_ = std::make_unique<Progress>("precompiling", total, json_);
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

/// Of attention's kernels, in order of appearance: "plain", "window_left softcap".
std::vector<std::string> variants_of(const std::vector<PrecompiledKernel>& kernels) {
  std::vector<std::string> all;
  for (const PrecompiledKernel& kernel : kernels) {
    const KernelPass pass = pass_of(kernel.config);
    if (pass == KernelPass::append || pass == KernelPass::merge) continue;  // they know no variants
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
  double compile_ms = 0;  ///< of those compiled now
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
               {"spec"},
               number("registers"),
               number("spills"),
               number("shared"),
               number("cubin"),
               number("ms"),
               {"origin"},
               {"config"}});
  for (const PrecompiledKernel& kernel : kernels) table.add(cells_of(kernel));
  print(table);
  fmt::print(
      "{} kernels: {} compiled, {} in the cache already, {} failed; {} of cubins; {:.1f} s ({:.1f} s of "
      "compiling)\nVariants: {}\n",
      kernels.size(), totals.compiled, totals.cached, totals.failed, bytes_text(totals.bytes), seconds,
      totals.compile_ms / 1000, fmt::join(variants_of(kernels), ", "));
}

std::vector<PrecompiledKernel> precompile(const Options& options, bool json) {
  const std::vector<AttentionProblem> problems = options.traits.problems();
  std::vector<std::string> archs;
  for (const std::string& name : options.archs) archs.emplace_back(arch_of(name).name);
  Observer observer(json);
  PrecompileOptions settings;
  settings.out = options.out;
  settings.jobs = options.jobs;
  settings.plans = options.traits.plans();
  settings.backward = options.backward;
  settings.append = options.append;
  settings.merge = options.merge;
  settings.observer = &observer;
  return fa2::precompile(problems, archs, settings);
}

int run(const Options& options, bool json) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<PrecompiledKernel> kernels = precompile(options, json);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Totals totals = totals_of(kernels);
  if (json) {
    print_json({{"kernels", Json::parse(to_json(kernels))},
                {"variants", variants_of(kernels)},
                {"compiled", totals.compiled},
                {"cached", totals.cached},
                {"failed", totals.failed},
                {"binary_bytes", totals.bytes},
                {"seconds", seconds}});
  } else {
    print_kernels(kernels, totals, seconds);
  }
  std::fflush(stdout);
  std::set<std::string> seen;  // one missing NVRTC fails every kernel alike
  for (const PrecompiledKernel& kernel : kernels) {
    if (!kernel.error.empty() && seen.insert(kernel.error).second) {
      fmt::print(stderr, "fa2 precompile: {}: {}\n", kernel.arch, kernel.error);
    }
  }
  return totals.failed == 0 ? kOk : kFailed;
}

}  // namespace

Verb add_precompile(CLI::App& app) {
  CLI::App* verb = add_verb(
      app, "precompile", "Compile kernels into a cache directory. Needs NVRTC; no GPU, no driver",
      "fa2 precompile --arch sm_80,sm_90a --head-dim 64,128 --dtype f16,bf16 --causal both --out kernels\n"
      "  FA2_CACHE_PATH=kernels FA2_JIT=off ./server\n"
      "  fa2 precompile --arch sm_90a --head-dim 256 --dtype bf16 --causal yes --window-left both --softcap\n"
      "    (Gemma 2: softcap everywhere, every other layer with a window)\n"
      "  fa2 precompile --arch sm_90a --head-dim 128 --dtype bf16 --varlen --page-size 16 --append --out "
      "kernels\n"
      "    (a server: attention over pages of 16 keys, and what fills them)",
      "For each combination of --arch, --dtype, --head-dim, --head-dim-v, the masks, --alignment and the "
      "variants this\n"
      "makes every kernel that may run, whatever batch, heads and lengths come: what the heuristic can "
      "choose "
      "and what\n"
      "tuning records name, yours and those that ship with fa2. Of sm_90a that is up to 40 kernels, one for "
      "each number\n"
      "of query heads (1, 2, ... 64) that share a tile and each range of lengths; of any other arch up to "
      "18.\n"
      "--backward adds up to 7, with sinks 8: gradients have kernels of their own. --append and --merge add\n"
      "one each of a dtype, head dims and alignment, to which rows of cos and sin count: how many columns "
      "turn,\n"
      "and how, pages, parts and float32 are parameters. FA2_CONFIG makes one kernel of each combination "
      "instead.\n"
      "A variant's flag alone says yes: all kernels have it. Its widths and numbers are arguments of a "
      "call.");
  const auto options = std::make_shared<Options>();
  add_list(*verb, "--arch", options->archs, "GPU architectures: " + known_arch_names())->required();
  options->traits.add_to(*verb);
  verb->add_flag("--backward", options->backward, "Also the kernels of the backward: dQ, dK and dV");
  verb->add_flag("--append", options->append, "Also the kernel of append() to their caches, paged or not");
  verb->add_flag("--merge", options->merge, "Also the kernel of merge() of parts of their outputs");
  verb->add_option("--out", options->out, "Directory to fill (default: the user's own cache)");
  verb->add_option("--jobs", options->jobs, "Compiling threads; 0: one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  return {verb, [verb, options] { return run(*options, wants_json(*verb)); }};
}

}  // namespace fa2::tools
