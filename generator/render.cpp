// From a spec to source text: the rendered config.cuh, the embedded templates, the options and the key.
#include <core/hash.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_source.h>
#include <generator/problem_text.h>
#include <generator/template_set.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace fa2 {

namespace {

std::string spec_line(const KernelSpec& spec) {
  return fmt::format("{} {} {}", to_string(spec.traits), spec.arch.name, to_string(spec.config));
}

template <class Value>
std::string constant_line(std::string_view type, std::string_view name, const Value& value) {
  return fmt::format("  static constexpr {} {} = {};\n", type, name, value);
}

// A trait as kernels see it.
std::string trait_line(std::string_view, DType dtype) {
  return fmt::format("  using Element = {};\n", dtype == DType::f16 ? "Half" : "BFloat16");
}
std::string trait_line(std::string_view name, MaskKind mask) {
  return constant_line("MaskKind", name, fmt::format("MaskKind::{}", to_string(mask)));
}
std::string trait_line(std::string_view, RowAlignment alignment) {
  return constant_line("bool", "rows_are_16_byte_aligned", alignment != RowAlignment::element);
}
template <class Value>
std::string trait_line(std::string_view name, const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return constant_line("int", name, static_cast<int>(value));
  } else {
    return constant_line(std::is_same_v<Value, bool> ? "bool" : "int", name, value);
  }
}

/// Returns config.cuh: the constants that differ from config_defaults.cuh.
std::string render_config(const KernelSpec& spec) {
  std::string text = fmt::format(
      "// Rendered by fa2 for {}\n#pragma once\n\n#include \"config_defaults.cuh\"\n\n"
      "namespace fa2 {{\n\nstruct Config : ConfigDefaults {{\n",
      spec_line(spec));
  const std::string_view defaults = embedded_template(kDefaultsHeader);
  const auto add = [&](const std::string& line) {
    if (defaults.find(line) == std::string_view::npos) text += line;
  };
  const auto constant = [&](std::string_view name, int value) { add(constant_line("int", name, value)); };
  const KernelKind& kind = kind_of(spec.config);
  const auto trait = [&](const char* name, const auto& value) {
    if (kind.reads == nullptr || kind.reads(name)) add(trait_line(name, value));
  };
  visit_traits(trait, spec.traits);
  visit_own(spec.config, constant);
  constant("shared_bytes", shared_bytes(spec.traits, spec.config));
  for (const auto& [name, value] : kind.constants(spec)) constant(name, value);
  return text + "};\n\n}  // namespace fa2\n";
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

/// The machine code of interpreted kernels.
#if defined(__x86_64__)
constexpr std::string_view kHost = "x86_64";
#elif defined(__aarch64__)
constexpr std::string_view kHost = "aarch64";
#else
#error "the interpreter's objects need a name for this host's machine code"
#endif

/// Sets the key of the compiled kernel in caches: a hash of everything that its binary depends on.
void set_cache_key(KernelSource& source, const std::string& template_digest,
                   const std::vector<SourceFile>& rendered) {
  source.key_parts = {{"format", "2"},
                      {"arch", std::string(source.arch.name)},
                      {"entry", source.entry},
                      {"templates", template_digest},
                      {"options", fmt::format("{}", fmt::join(source.options, " "))}};
  for (const SourceFile& file : rendered) source.key_parts.push_back({file.name, content_hash(file.text)});
  if (source.arch.interpreted) source.key_parts.push_back({"host", std::string(kHost)});
  std::string text;
  for (const KeyPart& part : source.key_parts) text += fmt::format("{}={}\n", part.name, part.value);
  source.key = content_hash(text);
}

}  // namespace

const std::string& template_digest(const KernelConfig& config, const Arch& arch) {
  return template_set(kind_of(config), arch).digest;
}

std::string render_config_defaults() {
  std::string text =
      "// Written by the golden tests: the constants of a kernel without variants, with the tunables of "
      "KernelConfig{}.\n"
      "// config.cuh names those that differ.\n"
      "#pragma once\n\n#include \"attention/common/mask.cuh\"\n#include \"ptx/keywords.cuh\"\n\n"
      "namespace fa2 {\n\nstruct ConfigDefaults {\n";
  visit_traits([&](const char* name, const auto& value) { text += trait_line(name, value); },
               AttentionTraits());
  constexpr KernelConfig kConfig;
  KernelConfig::visit(kConfig,
                      [&](const char* name, int value) { text += constant_line("int", name, value); });
  return text + "};\n\n}  // namespace fa2\n";
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
  std::vector<SourceFile> rendered = kind.headers(spec);
  rendered.insert(rendered.begin(), {std::string(kConfigHeader), render_config(spec)});
  KernelSource source;
  source.spec = spec_line(spec);
  source.precompile_command = precompile_command(spec);
  source.entry = kind.entry;
  source.arch = spec.arch;
  source.options = compile_options(spec.arch);
  set_cache_key(source, templates.digest, rendered);
  source.main = {std::string(templates.main.name), std::string(templates.main.text)};
  source.headers = headers_of(templates.headers, std::move(rendered));
  source.threads = kind.threads(spec.config);
  source.shared_bytes = kind.shared_bytes(spec.traits, spec.config);
  return source;
}

}  // namespace fa2
