// Every error that fa2 throws. Each message states the given value, the expected one and what to do.
#pragma once

#include <fa2/types.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace fa2 {

enum class ErrorCode : std::int32_t {
  invalid_request = 1,  ///< the request is wrong; fa2 launched and wrote nothing
  compile = 2,          ///< NVRTC failed, or the kernel exceeds a resource limit
  cache = 3,            ///< a kernel cache that the call depends on could not be read or written
  cuda = 4,             ///< the CUDA driver returned an error
  unavailable = 5,      ///< libcuda, NVRTC, a GPU or (FA2_JIT=off) a precompiled kernel is missing
  internal = 6,         ///< a bug in fa2
  kernel_fault = 7,     ///< an interpreted kernel violated a PTX rule
  interrupted = 8,      ///< the program or a signal ended the work; outputs may hold anything
  communication = 9,    ///< ranks could not exchange data; outputs may hold anything
};

/// The base class of all errors. what() is valid UTF-8 of at most 64 KiB, even if a path or a setting was not.
class FA2_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// One broken rule: the field, its value, and what the value must be.
struct Violation {
  std::string field;
  std::string value;
  std::string rule;
};

/// Returns for example "head_dim = 7, must be a multiple of 8 in 8..256".
FA2_API std::string to_string(const Violation&);

/// A problem, arguments, options or an environment variable are wrong. The error lists every violation. fa2 launched and
/// wrote nothing.
class FA2_API InvalidRequest : public Error {
 public:
  explicit InvalidRequest(std::vector<Violation> violations);
  const std::vector<Violation>& violations() const noexcept { return violations_; }

 private:
  std::vector<Violation> violations_;
};

/// NVRTC failed. fa2 does not cache the kernel.
class FA2_API CompileError : public Error {
 public:
  CompileError(const std::string& message, std::string log, std::string source_path)
      : Error(ErrorCode::compile, message), log_(std::move(log)), source_path_(std::move(source_path)) {}
  /// Returns the output of NVRTC and ptxas.
  const std::string& log() const noexcept { return log_; }
  /// Returns the path of the kept source; empty without FA2_KEEP_SOURCE, or if the file could not be written.
  const std::string& source_path() const noexcept { return source_path_; }

 private:
  std::string log_;
  std::string source_path_;
};

/// The kernel compiled, but it spills registers or needs more shared memory than the GPU has. Unless this configuration
/// was pinned, fa2 takes the next one and says so in the explanation.
class FA2_API KernelRefused : public CompileError {
 public:
  KernelRefused(const std::string& message, std::string reason, std::string log, std::string source_path)
      : CompileError(message, std::move(log), std::move(source_path)), reason_(std::move(reason)) {}
  /// Returns the broken rule and the compiler's name.
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::string reason_;
};

class FA2_API CacheError : public Error {
 public:
  explicit CacheError(const std::string& message) : Error(ErrorCode::cache, message) {}
};

/// The CUDA driver returned an error; result() is its CUresult.
class FA2_API CudaError : public Error {
 public:
  CudaError(const std::string& message, std::int32_t result)
      : Error(ErrorCode::cuda, message), result_(result) {}
  std::int32_t result() const noexcept { return result_; }

 private:
  std::int32_t result_;
};

/// A library, GPU or kernel that the call needs is missing. The message names it and the places that fa2 searched.
class FA2_API Unavailable : public Error {
 public:
  explicit Unavailable(const std::string& message) : Error(ErrorCode::unavailable, message) {}
};

/// The program's function (fa2_set_interrupt in fa2/c_machine.h) ended an interpreted launch or a compilation, a signal
/// killed the compiler, or the process exits. fa2 discards the compilation; the next call compiles again.
class FA2_API Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& message) : Error(ErrorCode::interrupted, message) {}
};

/// An interpreted kernel made an error that would crash a GPU or go unnoticed there. The message names the error, the
/// kernel, the block, the thread and the source line.
class FA2_API KernelFault : public Error {
 public:
  explicit KernelFault(const std::string& message) : Error(ErrorCode::kernel_fault, message) {}
};

/// Ranks could not exchange data: a rank did not come in time, ranks disagree, or the communication library failed. The message
/// names the rank, and for a failed library its function and result. The communicator cannot be used any more.
class FA2_API CommunicationError : public Error {
 public:
  CommunicationError(const std::string& message, int rank, std::int32_t result = 0)
      : Error(ErrorCode::communication, message), rank_(rank), result_(result) {}
  /// Returns the rank that reports the error; -1 if it has none yet.
  int rank() const noexcept { return rank_; }
  /// Returns the library's result, for NCCL its ncclResult_t; 0 if no library failed.
  std::int32_t result() const noexcept { return result_; }

 private:
  int rank_;
  std::int32_t result_;
};

}  // namespace fa2
