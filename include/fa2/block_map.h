// Which blocks of keys the text of a mask shows, held between calls.
//
//   fa2::BlockMap map;
//   context.map_blocks(problem, args, map, stream);   // evaluates the mask for every pair of a query and a key, once
//   args.block_map = &map;
//   context.attention(problem, args, stream);         // and any number of times
#pragma once

#include <fa2/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fa2 {

class HeldMaps;

/// The maps of one mask (fa2/score_text.h), for calls in which it shows the same: with the same captured values, and the same tables
/// of lengths of packed sequences. Without it, such calls make their map in each launch. Masks that capture nothing, of sequences
/// whose lengths the host knows, need none. Copies share the maps; the memory is freed with the last copy, which must outlive the
/// launches that read it. Calls on other streams than map_blocks() must be ordered behind it. map_blocks() into a map that has blocks
/// overwrites these in place, and so may be captured into a graph. Thread-safe.
class FA2_API BlockMap {
 public:
  /// `version` is the caller's name for what captures and tables hold now. A call whose AttentionArgs::block_map_version is another
  /// is an error: count it up with every change, and a map that is out of date is found out.
  explicit BlockMap(std::uint64_t version = 0);

  std::uint64_t version() const;
  /// Returns the device memory of all maps in bytes.
  std::size_t bytes() const;

  HeldMaps& impl() const { return *maps_; }

 private:
  std::shared_ptr<HeldMaps> maps_;
};

}  // namespace fa2
