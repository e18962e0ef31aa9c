// Addresses in the shared memory of a cluster.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// A byte address in the shared memory of any block of the cluster (shared::cluster).
struct ClusterAddress {
  u32 value;
};

FA2_DEVICE ClusterAddress operator+(ClusterAddress address, u32 bytes) {
  return {address.value + bytes};
}

}  // namespace fa2::ptx
