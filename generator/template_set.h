// Which embedded files a kernel is made of: those it includes, and no other.
#pragma once

#include <core/arch.h>
#include <generator/embedded.h>
#include <generator/kernel_kind.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

inline constexpr std::string_view kConfigHeader = "config.cuh";

/// What the kernels of one kind have in common.
struct TemplateSet {
  EmbeddedFile main;                  ///< the translation unit
  std::vector<EmbeddedFile> headers;  ///< what it includes, directly or not, stand-ins among them
  std::string digest;                 ///< over the names and texts of all of these but the stand-ins
};

/// Made once. For the interpreter its twins stand in for templates/ptx.
const TemplateSet& template_set(const KernelKind& kind, const Arch& arch);

/// What any kernel for `arch` may include.
std::vector<EmbeddedFile> available_headers(const Arch& arch);

/// Whether what is embedded of this header only stands in for what is rendered.
bool is_stand_in(std::string_view name, const Arch& arch);

/// Returns the path in the repository of a file that an interpreted kernel includes: "templates/attention/common/mask.cuh",
/// "interpreter/ptx/mma.cuh". A rendered file has its name alone.
std::string path_in_repository(std::string_view name);

/// Those of `files`, in their order, that the lines `#include "name"` of `text` lead to, directly or not.
std::vector<EmbeddedFile> included_by(std::string_view text, std::span<const EmbeddedFile> files);

}  // namespace fa2
