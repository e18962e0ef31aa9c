// The maps of blocks that a caller holds (fa2/block_map.h).
#pragma once

#include <fa2/args.h>
#include <fa2/block_map.h>
#include <fa2/errors.h>
#include <fa2/problem.h>
#include <planning/plan.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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
  /// Returns the bits that the kernel with `config` made; null if it has made none.
  std::shared_ptr<std::byte> bits_of(const KernelConfig& config) const;
  /// Keeps the bits that the kernel made.
  void keep(const AttentionProblem& problem, int device, const KernelConfig& config,
            std::shared_ptr<std::byte> bits, std::size_t bytes);

 private:
  struct Entry {
    KernelConfig config;  ///< of the kernel that made it
    std::shared_ptr<std::byte> bits;
    std::size_t bytes;
  };

  const std::uint64_t version_;
  mutable std::mutex mutex_;
  std::optional<AttentionProblem> shape_;  ///< what decides which blocks are seen; none before the first map
  int device_ = 0;
  std::vector<Entry> entries_;
};

/// Returns device memory of so many bytes for a map. The device's context is current.
using AllocateMap = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
/// As AllocateMap, in memory of its own. @throws CudaError.
std::shared_ptr<std::byte> map_memory(std::size_t bytes);

/// Makes the maps of a plan, of a forward or of a backward, whose arguments are valid, and keeps them. Does nothing for a plan that
/// reads none, or whose map is the same in every call. The plan's device's context must be current. @throws CudaError, KernelFault.
void map_blocks(const Plan& plan, const AnyRef& args, OperandList operands, HeldMaps& maps, Stream stream,
                const AllocateMap& allocate);

/// Returns whether map_blocks() would add a map for tiles of which there is none yet.
bool lacks_map(const Plan& plan, const HeldMaps& maps);

/// Appends what is wrong with AttentionArgs::block_map.
void check_block_map(std::vector<Violation>& found, const AttentionProblem& problem,
                     const AttentionArgs& args, int device);

/// Returns whether the step makes a map that the call brings along.
bool is_held(const Step& step, const Call& call);

}  // namespace fa2
