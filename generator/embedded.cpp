// Finds one embedded template.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/embedded.h>

#include <algorithm>

namespace fa2 {

std::string_view embedded_template(std::string_view name) {
  const auto files = embedded_templates();
  const auto found = std::ranges::lower_bound(files, name, {}, &EmbeddedFile::name);
  if (found == files.end() || found->name != name) {
    throw Error(ErrorCode::internal, fmt::format("no template named '{}' is embedded in this library", name));
  }
  return found->text;
}

}  // namespace fa2
