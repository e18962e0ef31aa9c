// The memory of a run over several ranks.
#pragma once

#include <runtime/stream_memory.h>

#include <cstddef>
#include <optional>

namespace fa2 {

/// The workspace of a run: the caller's, else memory of the stream.
class RunMemory {
 public:
  RunMemory(const ScratchPool& pool, std::size_t bytes, void* given, Stream stream) : data_(given) {
    if (given != nullptr || bytes == 0) return;
    borrowed_ = pool.take(bytes, stream);
    data_ = borrowed_->data();
  }

  /// Calls run(workspace). After an error memory of the stream is never returned, because messages may still arrive in it.
  template <class Run>
  void use(const Run& run) try {
    run(data());
  } catch (...) {
    if (borrowed_) borrowed_->abandon();
    throw;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
  std::optional<StreamMemory> borrowed_;
};

}  // namespace fa2
