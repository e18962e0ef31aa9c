// Order between streams. On the interpreter there is none to make: its work has ended when a call returns.
#pragma once

#include <fa2/types.h>

#include <cstddef>
#include <cstdint>

namespace fa2 {

/// A point in the work of a stream. Needs the current context.
class StreamEvent {
 public:
  StreamEvent();
  ~StreamEvent();
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  /// Moves the point behind all work that `stream` has now.
  void record(Stream stream);

  /// Lets later work on `stream` begin only when the work up to the point has ended.
  void hold(Stream stream) const;

  /// Returns whether the work up to the point has ended. Does not wait. @throws CudaError if the work failed.
  bool has_passed() const;

 private:
  void* event_ = nullptr;  ///< null on the interpreter
};

/// Copies memory of the current device after the work on `stream`.
void copy_on_stream(void* to, const void* from, std::size_t bytes, Stream stream);

/// Rows of equal size that are copied. They do not overlap.
struct CopiedRows {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;  ///< of a row
  std::int64_t rows = 1;
  std::int64_t to_pitch = 0, from_pitch = 0;  ///< bytes from row to row; read if there are several
};

/// As above.
void copy_on_stream(const CopiedRows& copy, Stream stream);

}  // namespace fa2
