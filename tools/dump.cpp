// fa2 dump: a kernel's rendered source, its PTX, or the compiler's log.
#include <api/context.h>
#include <fmt/format.h>
#include <generator/kernel_source.h>
#include <runtime/compiler.h>
#include <tools/problem_options.h>
#include <tools/verb.h>

#include <memory>

namespace fa2::tools {
namespace {

struct DumpFlags {
  ProblemOptions problem;
  TargetOptions target;
  bool source = false;
  bool ptx = false;
  bool log = false;
};

Target target_of(const TargetOptions& options) {
  if (options.arch.empty()) return fa2::target_of(options.device.device());
  return {arch_of(options.arch), "", 0};
}

/// Returns the kernel that would run without a new search. Compiles nothing.
KernelSource source_of(const DumpFlags& options) {
  const PlannedProblem problem = options.problem.problem();
  const Target target = target_of(options.target);
  Context context;
  const ConfigChoice choice = context.impl().chooser.choose(problem, target);
  return render({traits_of(problem), choice.config, target.arch});
}

std::vector<SourceFile> files_of(const KernelSource& source) {
  std::vector<SourceFile> files = source.headers;
  files.push_back(source.main);
  return files;
}

void require_compiled_by_nvrtc(const DumpFlags& options, const Arch& arch) {
  if (!arch.interpreted || options.source) return;
  throw CLI::ValidationError(
      "--arch",
      "must be a GPU: the host's compiler compiles interpreted kernels, so they have no PTX and no "
      "NVRTC log. For example --arch sm_90a");
}

std::string text_of(const DumpFlags& options, const KernelSource& source) {
  if (options.ptx) return nvrtc_ptx(source);
  if (options.log) return nvrtc_log(source);
  std::string text;
  for (const SourceFile& file : files_of(source))
    text += fmt::format("// ==== {}\n{}\n", file.name, file.text);
  return text;
}

Json json_of(const DumpFlags& options, const KernelSource& source) {
  Json json = {{"key", source.key}, {"spec", source.spec}, {"options", source.options}};
  if (options.ptx) json["ptx"] = nvrtc_ptx(source);
  if (options.log) json["log"] = nvrtc_log(source);
  if (!options.source) return json;
  for (const SourceFile& file : files_of(source)) {
    json["source"].push_back({{"name", file.name}, {"text", file.text}});
  }
  return json;
}

}  // namespace

Verb add_dump(CLI::App& app) {
  CLI::App* verb = add_verb(app, "dump", "Print a kernel's rendered source, its PTX or the compiler's log",
                            "fa2 dump --ptx --head-dim 128 --arch sm_80");
  const auto options = std::make_shared<DumpFlags>();
  auto* what = verb->add_option_group("What");
  what->add_flag("--source", options->source, "Every compiled file, each after a line \"// ==== name\"");
  what->add_flag("--ptx", options->ptx, "PTX");
  what->add_flag("--log", options->log, "Log of NVRTC and ptxas");
  what->require_option(1);
  options->problem.add_to(*verb);
  options->target.add_to(*verb);
  return {verb, [verb, options] {
            const KernelSource source = source_of(*options);
            require_compiled_by_nvrtc(*options, source.arch);
            wants_json(*verb) ? print_json(json_of(*options, source))
                              : fmt::print("{}", text_of(*options, source));
            return kOk;
          }};
}

}  // namespace fa2::tools
