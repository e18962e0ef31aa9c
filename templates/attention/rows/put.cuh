// The kernel that puts messages into memory of other ranks, and returns when those of the others have arrived. Copy engines take longer
// to begin than small messages take.
//
// Launch: kPutBlocks blocks. Each has a part of every message, and flags of its own with the same block of other ranks.
#pragma once

#include "attention/rows/put_params.cuh"
#include "ptx/barrier.cuh"
#include "ptx/flag.cuh"
#include "ptx/memory.cuh"
#include "ptx/registers.cuh"

namespace fa2 {

/// Calls copy(offset) for each of the block's pieces of `size` bytes.
template <class Config, class Copy>
FA2_DEVICE void each_piece(long long bytes, int size, const Copy& copy) {
  constexpr int kThreads = Config::warps * 32;
  const i64 first = static_cast<i64>(ptx::block_index()) * kThreads + ptx::thread_index();
  for (i64 piece = first; piece < bytes / size; piece += kPutBlocks * kThreads) copy(piece * size);
}

template <class Config>
FA2_DEVICE void put(const PutMessage& message) {
  const char* const from = static_cast<const char*>(message.from);
  char* const to = static_cast<char*>(message.to);
  const auto all = reinterpret_cast<u64>(from) | reinterpret_cast<u64>(to) | static_cast<u64>(message.bytes);
  if (all % 16 == 0)
    each_piece<Config>(message.bytes, 16,
                       [&](i64 at) { ptx::st_global_v4(to + at, ptx::ld_global_v4(from + at)); });
  else
    each_piece<Config>(message.bytes, 4, [&](i64 at) {
      ptx::st_global_u32(to + at,
                         static_cast<u32>(ptx::ld_global_s32(reinterpret_cast<const int*>(from + at))));
    });
}

/// Waits for the flag, and lowers it.
FA2_DEVICE void take(u32* flag) {
  ptx::await_system_u32(flag, 1);
  ptx::st_global_u32(flag, 0);
}

template <class Config>
FA2_DEVICE void put_messages(const PutParams& params) {
  const int block = static_cast<int>(ptx::block_index()), thread = ptx::thread_index();
  const bool is_peer = thread < params.peer_count && params.peers[thread].allow != nullptr;
  if (is_peer && params.peers[thread].sends != 0)
    ptx::st_release_system_u32(params.peers[thread].allow + block, 1);
  int message = 0;
  for (int i = 0; i < params.peer_count; ++i) {
    const PutPeer& peer = params.peers[i];
    if (peer.messages == 0) continue;
    if (thread == 0 && peer.allow != nullptr) take(peer.allowed + block);
    ptx::bar_sync();
    for (const int end = message + peer.messages; message < end; ++message)
      put<Config>(params.messages[message]);
    ptx::bar_sync();
    if (thread == 0 && peer.allow != nullptr) ptx::st_release_system_u32(peer.deliver + block, 1);
  }
  if (is_peer && params.peers[thread].sends != 0) take(params.peers[thread].delivered + block);
}

}  // namespace fa2
