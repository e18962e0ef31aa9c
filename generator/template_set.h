// The embedded files that a kernel includes.
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
inline constexpr std::string_view kDefaultsHeader = "config_defaults.cuh";

/// The files of one kernel.
struct TemplateSet {
  EmbeddedFile main;                  ///< the translation unit
  std::vector<EmbeddedFile> headers;  ///< all direct and indirect includes, and placeholders
  /// Hash of the names and texts of all these files but config.cuh. For config_defaults.cuh it covers named_defaults().
  std::string digest;
};

/// Returns the files of a kernel, computed once. For the interpreter, its emulations replace templates/ptx.
const TemplateSet& template_set(const KernelKind& kind, const Arch& arch);

/// Returns all headers that a kernel for `arch` may include.
std::vector<EmbeddedFile> available_headers(const Arch& arch);

/// Returns whether the embedded header is only a placeholder, for editors, of one that is rendered for kernels:
/// config.cuh, and headers that define FA2_PLACEHOLDER.
bool is_placeholder(const EmbeddedFile& file);

/// Returns the path in the repository of a file that an interpreted kernel includes: "templates/attention/common/mask.cuh",
/// "interpreter/ptx/mma.cuh". A rendered file has its name alone.
std::string path_in_repository(std::string_view name);

/// Returns the lines of config_defaults.cuh whose constants other files of `files` name. No other line can change a kernel of
/// these files, so a new constant leaves its key as it is.
std::string named_defaults(std::string_view defaults, std::span<const EmbeddedFile> files);

/// Returns the members of `files`, in their order, that the lines `#include "name"` of `text` reach, directly or indirectly.
std::vector<EmbeddedFile> included_by(std::string_view text, std::span<const EmbeddedFile> files);

}  // namespace fa2
