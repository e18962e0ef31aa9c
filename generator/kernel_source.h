// A rendered kernel: everything that a compiler needs, and the key of the binary.
#pragma once

#include <core/arch.h>
#include <fa2/attention.h>
#include <generator/embedded.h>
#include <generator/kernel_spec.h>

#include <span>
#include <string>
#include <vector>

namespace fa2 {

struct KernelSource {
  std::string key;  ///< 32 hex digits over key_parts
  std::vector<KeyPart>
      key_parts;     ///< format version, arch, entry, digest of the templates, options, rendered headers
  std::string spec;  ///< one readable line: traits, config, arch
  std::string precompile_command;  ///< the shell command that puts this kernel into a directory DIR
  std::string entry;               ///< extern "C" name of the kernel
  Arch arch;
  SourceFile main;                   ///< the translation unit
  std::vector<SourceFile> headers;   ///< all direct and indirect includes; rendered config.cuh first
  std::vector<std::string> options;  ///< NVRTC options, in order
  std::int32_t threads = 0;          ///< per block
  std::int32_t shared_bytes = 0;     ///< dynamic shared memory per block
};

/// Renders a spec. The same spec gives the same bytes, on every machine. bytes16 and bytes16_any_order give the same source and
/// key, because no kernel depends on the difference.
/// @throws InvalidRequest if the config does not fit the traits and arch (see why_rejected).
KernelSource render(const KernelSpec& spec);

/// Returns the hash of the templates that this config's kernel includes, and of no others. It is part of the key, and tuning
/// records keep it.
const std::string& template_digest(const KernelConfig& config, const Arch& arch);

/// Returns all headers that a kernel may include: `config` as the text of config.cuh, and `rendered` in place of placeholders of
/// the same names. The interpreter's own ptx/ replaces templates/ptx, and knows every instruction shape.
std::vector<SourceFile> device_headers(std::string config, const Arch& arch,
                                       std::vector<SourceFile> rendered = {});

/// Returns the options that every kernel is compiled with.
std::vector<std::string> compile_options(const Arch& arch);

}  // namespace fa2
