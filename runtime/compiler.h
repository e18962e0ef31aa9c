// Compiles rendered source to a binary. One implementation uses NVRTC; the interpreter's uses a host
// compiler.
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

  /// Returns the compiled kernel.
  /// @throws CompileError (with log and kept source) if the source does not compile; KernelRefused if it
  /// spills registers or needs more shared memory than the arch has; Unavailable if there is no compiler.
  virtual KernelBinary compile(const KernelSource& source) = 0;

  /// Returns the versions of the compiler and of its rules for kernels: "nvrtc 13.0, rules 1". A cached
  /// refusal applies only to these versions. Empty: this compiler refuses no kernel. @throws Unavailable if
  /// there is no compiler.
  virtual std::string judge(const Arch&) { return {}; }
};

/// Removes the source that a failed compile kept, for callers to whom the failure is an ordinary result.
void discard_source(const CompileError& error);

/// Returns a compiler that uses NVRTC and opens it on the first compile().
std::unique_ptr<Compiler> make_nvrtc_compiler();

/// Returns the kernel's PTX, or the compiler's log, for `fa2 dump`.
std::string nvrtc_ptx(const KernelSource& source);
std::string nvrtc_log(const KernelSource& source);

/// "13.0" and the library's path, for `fa2 info`. @throws Unavailable.
struct NvrtcVersion {
  int major = 0;
  int minor = 0;
  std::string path;
};
NvrtcVersion nvrtc_version();

/// Compiles an empty kernel, once per process. The first compilation registers NVRTC's exit handlers. A handler that ends compilations
/// must be registered later, to run before them.
void start_nvrtc(const Arch& arch);

/// Ends every compilation by NVRTC, also later ones, soon and with an Interrupted: the process exits.
void cancel_compilations();

}  // namespace fa2
