// Turns rendered source into a binary. NVRTC is one; a host compiler for the interpreter can be another.
#pragma once

#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <runtime/kernel_binary.h>

#include <memory>
#include <string>

namespace fa2 {

/// Thread-safe: compile() may run on many threads at once.
class Compiler {
 public:
  virtual ~Compiler() = default;

  /// @throws CompileError (with log and kept source) if the source does not compile; KernelRefused if it
  /// spills registers or needs more shared memory than the arch has; Unavailable if there is no compiler.
  virtual KernelBinary compile(const KernelSource& source) = 0;

  /// Who refuses kernels for `arch`: the compiler and the rules that its kernels are held to, each with its
  /// version, "nvrtc 13.0, rules 1". The refusal of another says nothing of this one. Empty: refuses none.
  /// @throws Unavailable if there is no compiler.
  virtual std::string judge(const Arch&) { return {}; }
};

/// Removes the source that a failed compile kept: for a caller to whom the failure is a result like another.
void discard_source(const CompileError& error);

/// NVRTC, opened on the first compile() and never before.
std::unique_ptr<Compiler> make_nvrtc_compiler();

/// Rendered text as it would be compiled, PTX or the compiler's log, for `fa2 dump`.
std::string nvrtc_ptx(const KernelSource& source);
std::string nvrtc_log(const KernelSource& source);

/// "13.0" and the library's path, for `fa2 info`. @throws Unavailable.
struct NvrtcVersion {
  int major = 0;
  int minor = 0;
  std::string path;
};
NvrtcVersion nvrtc_version();

}  // namespace fa2
