// From a spec to source text: config.cuh, the embedded templates, the options.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_header.h>
#include <generator/config_space.h>
#include <generator/kernel_key.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>
#include <generator/problem_text.h>
#include <generator/score_text_header.h>
#include <generator/template_set.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace fa2 {

namespace {

std::string spec_line(const KernelSpec& spec) {
  return fmt::format("{} {} {}", to_string(spec.traits), spec.arch.name, to_string(spec.config));
}

std::string precompile_command(const KernelSpec& spec) {
  return fmt::format("FA2_CONFIG={} fa2 precompile --arch {} {} --out DIR", to_string(spec.config),
                     spec.arch.name, flags_of(spec.traits));
}

/// Sets the traits that the kernel does not read to their defaults.
void forget_unread(AttentionTraits& traits, const KernelKind& kind) {
  if (kind.reads == nullptr) return;
  const PlannedProblem defaults = PlannedProblem().normalized();
  PlannedProblem::visit(
      [&](const char* name, FieldRole, auto& value, const auto& unread) {
        if (!kind.reads(name)) value = unread;
      },
      static_cast<PlannedProblem&>(traits), defaults);
}

/// Returns a spec with the same kernel for all specs that may share it. bytes16_any_order renders as bytes16: the sm80 kernel only
/// needs 16-byte alignment, and the sm90 kernel runs no other order than bytes16.
KernelSpec canonical(KernelSpec spec) {
  forget_unread(spec.traits, kind_of(spec.config));
  if (spec.traits.row_alignment == RowAlignment::bytes16_any_order)
    spec.traits.row_alignment = RowAlignment::bytes16;
  return spec;
}

/// Returns the headers as a compiler gets them. config.cuh comes first, and is the first of `rendered`.
std::vector<SourceFile> headers_of(std::span<const EmbeddedFile> files, std::vector<SourceFile> rendered) {
  std::vector<SourceFile> headers = {rendered.front()};
  for (const EmbeddedFile& file : files) {
    if (file.name == kConfigHeader) continue;
    const auto replacement = std::ranges::find(rendered, file.name, &SourceFile::name);
    const bool is_replaced = is_placeholder(file) && replacement != rendered.end();
    headers.push_back({std::string(file.name), is_replaced ? replacement->text : std::string(file.text)});
  }
  return headers;
}

}  // namespace

const std::string& template_digest(const KernelConfig& config, const Arch& arch) {
  return template_set(kind_of(config), arch).digest;
}

std::vector<SourceFile> device_headers(std::string config, const Arch& arch,
                                       std::vector<SourceFile> rendered) {
  rendered.insert(rendered.begin(), {std::string(kConfigHeader), std::move(config)});
  return headers_of(available_headers(arch), std::move(rendered));
}

std::vector<std::string> compile_options(const Arch& arch) {
  if (arch.interpreted)
    return {"-std=c++17", "-Og", "-g1", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden"};
  return {fmt::format("--gpu-architecture={}", arch.name), "--std=c++17", "-default-device", "--no-cache",
          "--ptxas-options=-v"};
}

KernelSource render(const KernelSpec& asked) {
  if (auto reason = why_rejected(asked)) {
    throw InvalidRequest({{"config", to_string(asked.config), *reason}});
  }
  const KernelSpec spec = canonical(asked);
  const KernelKind& kind = kind_of(spec.config);
  const TemplateSet& templates = template_set(kind, spec.arch);
  KernelSource source;
  source.spec = spec_line(spec);
  std::vector<SourceFile> rendered = kind.headers(spec);
  rendered.insert(rendered.begin(), {std::string(kConfigHeader), config_header(spec, source.spec)});
  const std::size_t before_texts = rendered.size();
  const auto add_texts = [&](Lines lines) {
    const Reads reads = kind.pass == KernelPass::d_captures       ? Reads::followed
                        : spec.config.kernel == KernelId::key_map ? Reads::ranges
                        : spec.config.score_tiles != 0            ? Reads::staged
                                                                  : Reads::plain;
    std::ranges::move(score_text_headers(spec.traits.score_text, lines, reads, spec.traits.query_pieces),
                      std::back_inserter(rendered));
  };
  add_texts(Lines::left_out);
  source.precompile_command = precompile_command(spec);
  source.entry = kind.entry;
  source.arch = spec.arch;
  source.options = compile_options(spec.arch);
  // A text divides every score; exact division takes ten instructions, this one two, with an error of 2 ulp.
  if (spec.traits.score_text != 0 && !spec.arch.interpreted) source.options.emplace_back("--prec-div=false");
  source.key_parts = key_parts(source, templates.digest, rendered);
  source.key = key_of(source.key_parts);
  // Where a text comes from is no part of the kernel's identity, but messages of compilers name it.
  rendered.resize(before_texts);
  add_texts(Lines::named);
  source.main = {std::string(templates.main.name), std::string(templates.main.text)};
  source.headers = headers_of(templates.headers, std::move(rendered));
  source.threads = kind.threads(spec.config);
  source.shared_bytes = kind.shared_bytes(spec.traits, spec.config);
  return source;
}

}  // namespace fa2
