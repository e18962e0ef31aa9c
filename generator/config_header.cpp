// How traits and tunables become constants of device code.
#include <fmt/format.h>
#include <generator/config_header.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <generator/key_map_layout.h>
#include <generator/template_set.h>

#include <type_traits>

namespace fa2 {

namespace {

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
// A kernel knows whether there are texts. The file that is rendered from them has what they say.
std::string trait_line(std::string_view name, std::int64_t text) {
  return constant_line("bool", name, text != 0);
}
template <class Value>
std::string trait_line(std::string_view name, const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return constant_line("int", name, static_cast<int>(value));
  } else {
    return constant_line(std::is_same_v<Value, bool> ? "bool" : "int", name, value);
  }
}

/// Returns whether heads share tiles: in forwards, and in maps for them.
bool packs_heads(const KernelConfig& config) {
  return pass_of(config) == KernelPass::forward ||
         (config.kernel == KernelId::key_map && config.key_map == kMapOfQueries);
}

}  // namespace

std::string config_header(const KernelSpec& spec, std::string_view title) {
  std::string text = fmt::format(
      "// Rendered by fa2 for {}\n#pragma once\n\n#include \"config_defaults.cuh\"\n\n"
      "namespace fa2 {{\n\nstruct Config : ConfigDefaults {{\n",
      title);
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
  constant("packs_heads", packs_heads(spec.config) ? 1 : 0);
  constant("shared_bytes", shared_bytes(spec.traits, spec.config));
  for (const auto& [name, value] : kind.constants(spec)) constant(name, value);
  return text + "};\n\n}  // namespace fa2\n";
}

std::string config_defaults_header() {
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
  text += constant_line("int", "packs_heads", 0);
  return text + "};\n\n}  // namespace fa2\n";
}

}  // namespace fa2
