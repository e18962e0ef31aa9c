// Every error fa2 throws. Each says what was asked, which limit it broke and what to do.
#pragma once

#include <fa2/types.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace fa2 {

enum class ErrorCode : std::int32_t {
  invalid_request = 1,  ///< the request itself is wrong; nothing was launched or written
  compile = 2,          ///< NVRTC refused the kernel, or the kernel broke a resource rule
  cache = 3,            ///< a kernel cache could not be read or written where that was essential
  cuda = 4,             ///< the CUDA driver returned an error
  unavailable = 5,      ///< something is missing: libcuda, NVRTC, a GPU, a precompiled kernel (FA2_JIT=off)
  internal = 6,         ///< a bug in fa2
  kernel_fault = 7,     ///< an interpreted kernel broke a rule of the machine
  interrupted =
      8,  ///< the program or a signal ended the work; outputs may hold anything, the next call starts again
};

/// The base of them all. what() is UTF-8 and at most 64 KiB long, whatever bytes a path or a setting had in it.
class FA2_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// One broken rule: which field, its value, and what it must satisfy.
struct Violation {
  std::string field;
  std::string value;
  std::string rule;
};

/// "head_dim = 7, must be a multiple of 8 in 8..256".
FA2_API std::string to_string(const Violation&);

/// The request is wrong: a problem, arguments, options, or the value of an environment variable. Lists every violation,
/// not only the first. Nothing was launched, nothing was written.
class FA2_API InvalidRequest : public Error {
 public:
  explicit InvalidRequest(std::vector<Violation> violations);
  const std::vector<Violation>& violations() const noexcept { return violations_; }

 private:
  std::vector<Violation> violations_;
};

/// NVRTC failed. Never cached as good.
class FA2_API CompileError : public Error {
 public:
  CompileError(const std::string& message, std::string log, std::string source_path)
      : Error(ErrorCode::compile, message), log_(std::move(log)), source_path_(std::move(source_path)) {}
  /// What NVRTC and ptxas printed.
  const std::string& log() const noexcept { return log_; }
  /// The file that holds the source; empty if none could be, or was to be, kept (FA2_KEEP_SOURCE).
  const std::string& source_path() const noexcept { return source_path_; }

 private:
  std::string log_;
  std::string source_path_;
};

/// The kernel compiled, but spills registers or needs more shared memory than the GPU has. Another
/// configuration may do: unless this one was pinned, fa2 takes the next and says so in its explanation.
class FA2_API KernelRefused : public CompileError {
 public:
  KernelRefused(const std::string& message, std::string reason, std::string log, std::string source_path)
      : CompileError(message, std::move(log), std::move(source_path)), reason_(std::move(reason)) {}
  /// The broken rule, with the compiler's name.
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::string reason_;
};

class FA2_API CacheError : public Error {
 public:
  explicit CacheError(const std::string& message) : Error(ErrorCode::cache, message) {}
};

/// The driver said no. `result()` is its CUresult.
class FA2_API CudaError : public Error {
 public:
  CudaError(const std::string& message, std::int32_t result)
      : Error(ErrorCode::cuda, message), result_(result) {}
  std::int32_t result() const noexcept { return result_; }

 private:
  std::int32_t result_;
};

/// Something this call needs is not there; the message names what was looked for and where.
class FA2_API Unavailable : public Error {
 public:
  explicit Unavailable(const std::string& message) : Error(ErrorCode::unavailable, message) {}
};

/// An interpreted launch or a compilation was ended: by the program's function (fa2_set_interrupt in fa2/c_machine.h), or by
/// a signal that killed the compiler. fa2 keeps nothing of the compilation, so that the next call compiles again.
class FA2_API Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& message) : Error(ErrorCode::interrupted, message) {}
};

/// An interpreted kernel did what a GPU would not have survived, or not noticed: the message says what, and
/// names the kernel, block, thread and source line.
class FA2_API KernelFault : public Error {
 public:
  explicit KernelFault(const std::string& message) : Error(ErrorCode::kernel_fault, message) {}
};

}  // namespace fa2
