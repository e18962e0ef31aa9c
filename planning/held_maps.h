// The maps of blocks that a caller holds (fa2/block_map.h).
#pragma once

#include <fa2/args.h>
#include <fa2/block_map.h>
#include <fa2/errors.h>
#include <fa2/problem.h>
#include <planning/plan.h>
#include <runtime/device_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace fa2 {

/// Maps of one mask for kernels with different tiles. Thread-safe.
class HeldMaps {
 public:
  explicit HeldMaps(std::uint64_t version) : version_(version) {}

  std::uint64_t version() const { return version_; }
  std::size_t bytes() const;

  /// Appends what of a call does not fit these maps: another version, another mask, sequences of other lengths, another device.
  void check(std::vector<Violation>& found, const AttentionProblem& problem, const AttentionArgs& args,
             int device) const;
  /// Returns the bits for a kernel with this config, which reads or makes a map; null if there are none.
  std::byte* find(const KernelConfig& config) const;
  /// Returns the memory of the kernel that makes a map by `config`: what it had, or new memory.
  std::shared_ptr<DeviceBuffer> memory_of(const KernelConfig& config, std::size_t bytes) const;
  /// Keeps the bits that the kernel made.
  void keep(const AttentionProblem& problem, int device, const KernelConfig& config,
            std::shared_ptr<DeviceBuffer> bits);

 private:
  struct Entry {
    KernelConfig config;  ///< of the kernel that made it
    std::shared_ptr<DeviceBuffer> bits;
  };

  const std::uint64_t version_;
  mutable std::mutex mutex_;
  std::optional<AttentionProblem> shape_;  ///< what decides which blocks are seen; none before the first map
  int device_ = 0;
  std::vector<Entry> entries_;
};

/// Makes the maps of a plan, of a forward or of a backward, whose arguments are valid, and keeps them. Does nothing for a plan that
/// reads none, or whose map is the same in every call. The plan's device's context must be current. @throws CudaError, KernelFault.
void map_blocks(const Plan& plan, const AnyRef& args, OperandList operands, HeldMaps& maps, Stream stream);

/// Appends what is wrong with AttentionArgs::block_map.
void check_block_map(std::vector<Violation>& found, const AttentionProblem& problem,
                     const AttentionArgs& args, int device);

/// Returns whether the step makes a map that the call brings along.
bool is_held(const Step& step, const Call& call);

}  // namespace fa2
