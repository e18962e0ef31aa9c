// Scratch memory in stream order: taken, used and given back by what one stream is given.
#pragma once

#include <fa2/types.h>

#include <cstddef>
#include <memory>

struct CUmemPoolHandle_st;

namespace fa2 {

/// Device memory for the work that its stream is given while this object is there; then it is given back, in the order of
/// the stream and without waiting. What it holds at first means nothing. Movable. On the interpreter: host memory.
///
/// The stream outlives it, and its context is current where it is destroyed. One taken while the stream captures is given
/// back before the capture ends.
class StreamMemory {
 public:
  /// At a multiple of 256 bytes; null if none was asked for.
  void* data() const { return data_.get(); }

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

/// Where streams of one device take scratch memory. Thread-safe.
///
/// What is given back serves the same stream at once, and others when the work before that is done: no stream is made to
/// wait for another. The pool keeps it, whatever is synchronised, so that a call like one before asks the operating system
/// for nothing. It is a pool of its own: those that the process uses, and their settings, stay as they are.
///
/// What a capturing stream takes is a node of its graph and the graph's own memory, at one address in every launch. CUDA
/// lets such a graph have one executable at a time; it cannot be cloned.
///
/// The pool may be destroyed before memory taken from it, which is freed when it comes back, and before graphs.
class ScratchPool {
 public:
  /// For the current device. Takes no memory yet. Also while streams capture. @throws CudaError.
  ScratchPool();

  /// For work on `stream`, of the pool's device; in its context, which is current. 0 bytes: nothing is taken.
  /// @throws Unavailable if the device has no memory pools; CudaError, if there is too little memory, say.
  StreamMemory take(std::size_t bytes, Stream stream) const;

  /// CUmemoryPool; null where the device has none, and on the interpreter.
  CUmemPoolHandle_st* handle() const { return pool_.get(); }

 private:
  struct Destroy {
    void operator()(CUmemPoolHandle_st* pool) const noexcept;
  };

  const int device_;
  std::unique_ptr<CUmemPoolHandle_st, Destroy> pool_;
};

}  // namespace fa2
