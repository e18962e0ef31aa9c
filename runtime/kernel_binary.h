// A compiled kernel: its bytes, and what is known about it.
#pragma once

#include <fa2/attention.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace fa2 {

struct KernelBinary {
  std::string key;        ///< KernelSource::key
  std::string spec;       ///< KernelSource::spec
  std::string arch;       ///< "sm_90a"
  std::string entry;      ///< the kernel's symbol
  std::string compiler;   ///< "nvrtc 13.0"; for a cached refusal, Compiler::judge()
  std::string templates;  ///< digest of the templates that it was rendered from; empty in older files
  std::string library;    ///< version of fa2 that rendered it; empty in files of versions before this field
  double compile_ms = 0;
  KernelResources resources;
  std::vector<std::byte> code;  ///< a cubin for CUDA archs
  std::string refused;          ///< why the kernel must not run, KernelRefused::reason(); there is no code
                                ///< then
};

}  // namespace fa2
