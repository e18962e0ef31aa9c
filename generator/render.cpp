// From a spec to source text: the rendered config.cuh, the embedded templates, the options and the key.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/embedded.h>
#include <generator/hash.h>
#include <generator/kernel_source.h>

#include <algorithm>

namespace fa2 {

namespace {

constexpr std::string_view kMain = "attention_forward_sm80.cu";
constexpr std::string_view kConfig = "config.cuh";
constexpr std::string_view kWgmmaShapes = "ptx/wgmma_shapes.cuh";

/// What is embedded of these is a stand-in.
bool is_rendered(std::string_view name) {
  return name == kConfig || name == kWgmmaShapes;
}

std::string spec_line(const KernelSpec& spec) {
  return fmt::format("{} {} {}", to_string(spec.traits), spec.arch.name, to_string(spec.config));
}

std::string render_config(const KernelSpec& spec) {
  const AttentionTraits& t = spec.traits;
  std::string text = fmt::format(
      "// Rendered by fa2 for {}\n#pragma once\n\n#include \"attention/mask.cuh\"\n#include "
      "\"ptx/keywords.cuh\"\n\n"
      "namespace fa2 {{\n\nstruct Config {{\n",
      spec_line(spec));
  text += fmt::format("  using Element = {};\n", t.dtype == DType::f16 ? "Half" : "BFloat16");
  const auto constant = [&](std::string_view name, auto value, std::string_view type = "int") {
    text += fmt::format("  static constexpr {} {} = {};\n", type, name, value);
  };
  constant("head_dim", t.head_dim);
  constant("head_dim_v", t.head_dim_v);
  constant("mask", fmt::format("MaskKind::{}", to_string(t.mask)), "MaskKind");
  constant("rows_are_16_byte_aligned", t.row_alignment == RowAlignment::bytes16, "bool");
  KernelConfig::visit(spec.config, constant);
  constant("shared_bytes", shared_bytes(t, spec.config));
  return text + "};\n\n}  // namespace fa2\n";
}

std::string precompile_command(const KernelSpec& spec) {
  const AttentionTraits& t = spec.traits;
  return fmt::format(
      "FA2_CONFIG={} fa2 precompile --arch {} --dtype {} --head-dim {} --head-dim-v {} --mask {} --alignment "
      "{} "
      "--out DIR",
      to_string(spec.config), spec.arch.name, to_string(t.dtype), t.head_dim, t.head_dim_v, to_string(t.mask),
      to_string(t.row_alignment));
}

/// Over every file but the stand-ins: names and texts, unambiguously framed.
std::string digest_of(std::span<const EmbeddedFile> files) {
  std::string all;
  for (const EmbeddedFile& file : files) {
    if (!is_rendered(file.name)) all += fmt::format("{} {}\n{}", file.name, file.text.size(), file.text);
  }
  return content_hash(all);
}

/// What machine code an interpreted kernel becomes.
#if defined(__x86_64__)
constexpr std::string_view kHost = "x86_64";
#elif defined(__aarch64__)
constexpr std::string_view kHost = "aarch64";
#else
#error "the interpreter's objects need a name for this host's machine code"
#endif

}  // namespace

const std::string& template_digest() {
  static const std::string digest = digest_of(embedded_templates());
  return digest;
}

std::vector<SourceFile> device_headers(std::string config, const Arch& arch,
                                       std::span<const WgmmaShape> wgmma_shapes) {
  std::vector<SourceFile> files = {{std::string(kConfig), std::move(config)}};
  if (!arch.interpreted) files.push_back({std::string(kWgmmaShapes), render_wgmma_shapes(wgmma_shapes)});
  const auto add = [&](const EmbeddedFile& file) {
    files.push_back({std::string(file.name), std::string(file.text)});
  };
  for (const EmbeddedFile& file : embedded_templates()) {
    const bool replaced = arch.interpreted && file.name.starts_with("ptx/");
    if (!is_rendered(file.name) && file.name.ends_with(".cuh") && !replaced) add(file);
  }
  if (arch.interpreted) std::ranges::for_each(embedded_twins(), add);
  return files;
}

std::vector<std::string> compile_options(const Arch& arch) {
  if (arch.interpreted)
    return {"-std=c++17", "-O1", "-g1", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden"};
  return {fmt::format("--gpu-architecture={}", arch.name), "--std=c++17", "-default-device", "--no-cache",
          "--ptxas-options=-v"};
}

KernelSource render(const KernelSpec& spec) {
  if (auto reason = why_rejected(spec)) {
    throw InvalidProblem({{"config", to_string(spec.config), *reason}});
  }
  const std::string config = render_config(spec);
  KernelSource source;
  source.spec = spec_line(spec);
  source.precompile_command = precompile_command(spec);
  source.entry = "fa2_attention_forward";
  source.arch = spec.arch;
  source.options = compile_options(spec.arch);
  source.key_parts = {{"format", "1"},
                      {"arch", std::string(spec.arch.name)},
                      {"entry", source.entry},
                      {"config", content_hash(config)},
                      {"templates", template_digest()},
                      {"options", fmt::format("{}", fmt::join(source.options, " "))}};
  if (spec.arch.interpreted) {
    source.key_parts.push_back({"twins", digest_of(embedded_twins())});
    source.key_parts.push_back({"host", std::string(kHost)});
  }
  std::string key_text;
  for (const KeyPart& part : source.key_parts) key_text += fmt::format("{}={}\n", part.name, part.value);
  source.key = content_hash(key_text);
  source.main = {std::string(kMain), std::string(embedded_template(kMain))};
  source.headers = device_headers(config, spec.arch);
  source.threads = spec.config.threads();
  source.shared_bytes = shared_bytes(spec.traits, spec.config);
  return source;
}

}  // namespace fa2
