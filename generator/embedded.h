// Files that are embedded into the library when it is built.
#pragma once

#include <span>
#include <string_view>

namespace fa2 {

struct EmbeddedFile {
  std::string_view name;  ///< relative to its folder: "attention/common/softmax.cuh"
  std::string_view text;
};

/// templates/, sorted by name.
std::span<const EmbeddedFile> embedded_templates();

/// interpreter/**.cuh, sorted by name: what stands in for templates/ptx when a kernel is interpreted.
std::span<const EmbeddedFile> embedded_twins();

/// autotune/records/, sorted by name: tuning records, one JSON lines file a GPU.
std::span<const EmbeddedFile> embedded_records();

/// The text of one template. @throws Error(internal) if there is none of that name.
std::string_view embedded_template(std::string_view name);

}  // namespace fa2
