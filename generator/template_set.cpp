// Follows #include lines through the embedded files.
#include <core/hash.h>
#include <fmt/format.h>
#include <generator/template_set.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace fa2 {
namespace {

/// One in a comment counts too: that costs a needless file, never a missing one.
std::vector<std::string_view> includes_of(std::string_view text) {
  constexpr std::string_view kInclude = "#include \"";
  std::vector<std::string_view> names;
  for (std::size_t at = text.find(kInclude); at != std::string_view::npos; at = text.find(kInclude, at)) {
    at += kInclude.size();
    names.push_back(text.substr(at, text.find('"', at) - at));
  }
  return names;
}

/// Unambiguously framed.
std::string framed(const EmbeddedFile& file) {
  return fmt::format("{} {}\n{}", file.name, file.text.size(), file.text);
}

TemplateSet made(const KernelKind& kind, const Arch& arch) {
  TemplateSet set;
  set.main = {kind.main, embedded_template(kind.main)};
  set.headers = included_by(set.main.text, available_headers(arch));
  std::string all = framed(set.main);
  for (const EmbeddedFile& file : set.headers) {
    if (!is_stand_in(file.name, arch)) all += framed(file);
  }
  set.digest = content_hash(all);
  return set;
}

using TemplateSets = std::map<const KernelKind*, TemplateSet>;

TemplateSets sets_for(const Arch& arch) {
  TemplateSets sets;
  for (const KernelKind* kind : kernel_kinds()) sets.emplace(kind, made(*kind, arch));
  return sets;
}

}  // namespace

const TemplateSet& template_set(const KernelKind& kind, const Arch& arch) {
  // What is included differs between no two GPUs.
  static const TemplateSets on_gpus = sets_for(known_archs().front());
  static const TemplateSets interpreted = sets_for(interpreter_arch());
  return (arch.interpreted ? interpreted : on_gpus).at(&kind);
}

std::vector<EmbeddedFile> available_headers(const Arch& arch) {
  std::vector<EmbeddedFile> files;
  std::ranges::copy_if(embedded_templates(), std::back_inserter(files), [&](const EmbeddedFile& file) {
    const bool replaced = arch.interpreted && file.name.starts_with("ptx/");
    return file.name.ends_with(".cuh") && !replaced;
  });
  if (arch.interpreted) std::ranges::copy(embedded_twins(), std::back_inserter(files));
  return files;
}

bool is_stand_in(std::string_view name, const Arch& arch) {
  return name == kConfigHeader || (name == "ptx/wgmma_shapes.cuh" && !arch.interpreted);
}

std::string path_in_repository(std::string_view name) {
  if (name == kConfigHeader) return std::string(name);
  const bool is_twin =
      std::ranges::find(embedded_twins(), name, &EmbeddedFile::name) != embedded_twins().end();
  return fmt::format("{}/{}", is_twin ? "interpreter" : "templates", name);
}

std::vector<EmbeddedFile> included_by(std::string_view text, std::span<const EmbeddedFile> files) {
  std::set<std::string_view> reached;
  std::vector<std::string_view> unread = {text};
  while (!unread.empty()) {
    const std::vector<std::string_view> names = includes_of(unread.back());
    unread.pop_back();
    for (const std::string_view name : names) {
      const auto file = std::ranges::find(files, name, &EmbeddedFile::name);
      if (file != files.end() && reached.insert(name).second) unread.push_back(file->text);
    }
  }
  std::vector<EmbeddedFile> included;
  std::ranges::copy_if(files, std::back_inserter(included),
                       [&](const EmbeddedFile& file) { return reached.contains(file.name); });
  return included;
}

}  // namespace fa2
