// Parameters of the kernel that puts messages into memory of other ranks. Host code includes this file too.
#pragma once

namespace fa2 {

inline constexpr int kMostPutRanks = 8;
inline constexpr int kMostPutMessages = 24;
inline constexpr int kPutBlocks = 16;

/// Addresses and bytes are multiples of 4.
struct PutMessage {
  const void* from;
  void* to;
  long long bytes;
};

/// Another rank, or the own one. Flags are kPutBlocks words, one for each block: 0 or 1. Null for the own rank.
struct PutPeer {
  unsigned* allow;      ///< in its memory: this rank may be written to
  unsigned* deliver;    ///< in its memory: this rank's data has arrived
  unsigned* allowed;    ///< in this rank's: the peer may be written to
  unsigned* delivered;  ///< in this rank's: the peer's data has arrived
  int messages;         ///< number of those to it, behind those to the peers before
  int sends;            ///< whether it sends to this rank
};

struct PutParams {
  PutPeer peers[kMostPutRanks];
  PutMessage messages[kMostPutMessages];
  int peer_count;
};

}  // namespace fa2
