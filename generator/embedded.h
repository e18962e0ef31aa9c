// The device templates, embedded into the library when it is built.
#pragma once

#include <span>
#include <string_view>

namespace fa2 {

struct EmbeddedFile {
  std::string_view name;  ///< relative to templates/: "attention/softmax.cuh"
  std::string_view text;
};

/// Sorted by name.
std::span<const EmbeddedFile> embedded_templates();

/// The text of one file. @throws Error(internal) if there is none of that name.
std::string_view embedded_template(std::string_view name);

}  // namespace fa2
