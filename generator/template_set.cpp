// Follows #include lines through the embedded files.
#include <core/hash.h>
#include <fmt/format.h>
#include <generator/template_set.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace fa2 {
namespace {

/// Also finds includes in comments: they may add a needless file, but no file is missing.
std::vector<std::string_view> includes_of(std::string_view text) {
  constexpr std::string_view kInclude = "#include \"";
  std::vector<std::string_view> names;
  for (std::size_t at = text.find(kInclude); at != std::string_view::npos; at = text.find(kInclude, at)) {
    at += kInclude.size();
    names.push_back(text.substr(at, text.find('"', at) - at));
  }
  return names;
}

/// Returns the name and text with their length, so that different files never give the same concatenation.
std::string framed(const EmbeddedFile& file) {
  return fmt::format("{} {}\n{}", file.name, file.text.size(), file.text);
}

/// Returns "name" of "  static constexpr int name = 1;" or "  using name = Half;", and "" of a line that defines nothing.
std::string_view name_defined_by(std::string_view line) {
  const std::size_t end = line.find(" = ");
  if (end == line.npos || !line.ends_with(';')) return {};
  return line.substr(line.rfind(' ', end - 1) + 1, end - line.rfind(' ', end - 1) - 1);
}

TemplateSet made(const KernelKind& kind, const Arch& arch) {
  TemplateSet set;
  set.main = {kind.main, embedded_template(kind.main)};
  set.headers = included_by(set.main.text, available_headers(arch));
  std::string all = framed(set.main);
  for (const EmbeddedFile& file : set.headers) {
    if (file.name == kDefaultsHeader) {
      all += framed({file.name, named_defaults(file.text, set.headers)});
    } else if (file.name != kConfigHeader) {
      all += framed(file);
    }
  }
  set.digest = content_hash(all);
  return set;
}

}  // namespace

const TemplateSet& template_set(const KernelKind& kind, const Arch& arch) {
  // Made when it is first needed, because a process uses few. All GPUs include the same files.
  static std::mutex mutex;
  static auto& sets = *new std::map<std::pair<const KernelKind*, bool>, TemplateSet>;
  const std::lock_guard lock(mutex);
  const std::pair key(&kind, arch.interpreted);
  const auto known = sets.find(key);
  return known != sets.end() ? known->second : sets.emplace(key, made(kind, arch)).first->second;
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

bool is_placeholder(const EmbeddedFile& file) {
  return file.name == kConfigHeader || file.text.find("#define FA2_PLACEHOLDER") != std::string_view::npos;
}

std::string path_in_repository(std::string_view name) {
  if (name == kConfigHeader) return std::string(name);
  const bool is_twin =
      std::ranges::find(embedded_twins(), name, &EmbeddedFile::name) != embedded_twins().end();
  return fmt::format("{}/{}", is_twin ? "interpreter" : "templates", name);
}

std::string named_defaults(std::string_view defaults, std::span<const EmbeddedFile> files) {
  const auto is_named_in = [](std::string_view name) {
    return [name](const EmbeddedFile& file) {
      return file.name != kDefaultsHeader && file.name != kConfigHeader &&
             file.text.find(name) != std::string_view::npos;
    };
  };
  std::string named;
  for (std::size_t begin = 0, end = 0; begin < defaults.size(); begin = end + 1) {
    end = std::min(defaults.find('\n', begin), defaults.size());
    const std::string_view line = defaults.substr(begin, end - begin), name = name_defined_by(line);
    if (!name.empty() && std::ranges::any_of(files, is_named_in(name))) named.append(line).append("\n");
  }
  return named;
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
