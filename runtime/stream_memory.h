// Scratch memory in stream order: one stream takes, uses and returns it.
#pragma once

#include <fa2/types.h>

#include <cstddef>
#include <memory>

struct CUmemPoolHandle_st;

namespace fa2 {

/// Device memory for work on its stream, with undefined contents. The destructor returns it in stream order,
/// without waiting. Movable. On the interpreter it is host memory.
///
/// The stream must outlive it, and the stream's context must be current at destruction. Memory taken during a
/// capture must be returned before the capture ends.
class StreamMemory {
 public:
  /// Returns the address, a multiple of 256 bytes; null if 0 bytes were requested.
  void* data() const { return data_.get(); }

  /// Never returns the memory, because something that no stream orders may still write to it.
  void abandon() noexcept { static_cast<void>(data_.release()); }

 private:
  friend class ScratchPool;
  struct GiveBack {
    Stream stream = nullptr;
    bool on_host = false;
    void operator()(void* data) const noexcept;
  };
  StreamMemory(void* data, GiveBack give_back) : data_(data, give_back) {}

  std::unique_ptr<void, GiveBack> data_;
};

/// Scratch memory for the streams of one device. Thread-safe.
///
/// Returned memory serves the same stream at once, and other streams when the earlier work is done. No stream
/// waits for another. The pool keeps the memory across synchronisation, so that repeated calls ask the
/// operating system for nothing. It is separate from the process's other pools and their settings.
///
/// Memory taken during a capture becomes a node and the memory of the graph, at one address in every launch.
/// CUDA lets such a graph have one executable at a time, and it cannot be cloned.
///
/// The pool may be destroyed before memory taken from it, which is freed on its return, and before graphs.
class ScratchPool {
 public:
  /// Creates a pool on the current device, without memory yet. Streams may be capturing. @throws CudaError.
  ScratchPool();

  /// Returns memory for work on `stream`, which belongs to the pool's device; its context must be current. 0
  /// bytes: null.
  /// @throws Unavailable if the device has no memory pools; CudaError, for example without enough memory.
  StreamMemory take(std::size_t bytes, Stream stream) const;

  /// Returns the CUmemoryPool; null on the interpreter and on devices without pools.
  CUmemPoolHandle_st* handle() const { return pool_.get(); }

 private:
  struct Destroy {
    void operator()(CUmemPoolHandle_st* pool) const noexcept;
  };

  const int device_;
  std::unique_ptr<CUmemPoolHandle_st, Destroy> pool_;
};

}  // namespace fa2
