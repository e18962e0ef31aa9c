// Files that are embedded into the library when it is built.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fa2 {

struct EmbeddedFile {
  std::string_view name;  ///< relative to its folder: "attention/common/softmax.cuh"
  std::string_view text;
};

/// A file as a compiler gets it: a copy of an embedded one, or rendered.
struct SourceFile {
  std::string name;  ///< as #include'd: "attention/common/softmax.cuh"
  std::string text;
};

/// Returns templates/, sorted by name.
std::span<const EmbeddedFile> embedded_templates();

/// Returns interpreter/**.cuh, sorted by name: they replace templates/ptx when a kernel is interpreted.
std::span<const EmbeddedFile> embedded_twins();

/// Returns autotune/records/, sorted by name: tuning records, one JSON lines file per GPU.
std::span<const EmbeddedFile> embedded_records();

/// Returns the text of one template. @throws Error(internal) if no template has that name.
std::string_view embedded_template(std::string_view name);

}  // namespace fa2
