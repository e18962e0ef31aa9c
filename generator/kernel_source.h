// A rendered kernel: everything a compiler needs, and the key of what it will make.
#pragma once

#include <core/arch.h>
#include <fa2/attention.h>
#include <generator/kernel_spec.h>
#include <generator/wgmma_shapes.h>

#include <span>
#include <string>
#include <vector>

namespace fa2 {

struct SourceFile {
  std::string name;  ///< as #include'd: "attention/common/softmax.cuh"
  std::string text;
};

struct KernelSource {
  std::string key;                 ///< 32 hex digits over key_parts
  std::vector<KeyPart> key_parts;  ///< config text, digest of the templates, options, arch, format version
  std::string spec;                ///< one readable line: traits, config, arch
  std::string precompile_command;  ///< the shell command that puts this kernel into a directory DIR
  std::string entry;               ///< extern "C" name of the kernel
  Arch arch;
  SourceFile main;                   ///< the translation unit
  std::vector<SourceFile> headers;   ///< what it includes, directly or not; rendered config.cuh first
  std::vector<std::string> options;  ///< NVRTC options, in order
  std::int32_t threads = 0;          ///< per block
  std::int32_t shared_bytes = 0;     ///< dynamic shared memory per block
};

/// Renders a spec. Pure: the same spec gives the same bytes, everywhere. Specs that differ in nothing a kernel
/// depends on (bytes16 and bytes16_any_order) give the same source and key.
/// @throws InvalidRequest if the config does not fit the traits and arch (see why_rejected).
KernelSource render(const KernelSpec& spec);

/// Hash of the device templates that the kernels of this config's kind include, and of no other: part of
/// their keys, and kept with what was measured of them.
const std::string& template_digest(const KernelConfig& config, const Arch& arch);

/// All that a kernel may include: `config` as the text of config.cuh, the warpgroup MMAs it uses, and the
/// templates. For the interpreter its twins stand in for templates/ptx, and know every shape.
std::vector<SourceFile> device_headers(std::string config, const Arch& arch,
                                       std::span<const WgmmaShape> wgmma_shapes = {});

/// The options that every kernel is compiled with.
std::vector<std::string> compile_options(const Arch& arch);

}  // namespace fa2
