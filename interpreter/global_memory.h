// The buffers that a launch may touch.
#pragma once

#include <runtime/kernel.h>
#include <runtime/written_bytes.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::interpreter {

/// Used by all blocks of a launch at once. Every function that returns a string returns the rule that was
/// broken; empty if none was.
class GlobalMemory {
 public:
  /// Of the launch that begins. `written`: by the launches before it; it outlives this one.
  GlobalMemory(const std::vector<MemoryRange>& ranges, WrittenBytes& written);

  /// What nothing has initialised may be loaded once it was written: where access is Access::write by this
  /// launch, else by any of the plan run's.
  std::string check_load(const void* from, int bytes, int alignment) const;
  std::string check_store(const void* to, int bytes, int alignment) const;
  /// A read-modify-write: a load and a store.
  std::string check_atomic(const void* address, int bytes, int alignment) const;
  /// A store or an atomic that was checked.
  void note_store(const void* to, int bytes);

 private:
  struct Buffer {
    MemoryRange range;
    WrittenBytes::Cell* written;  ///< from range.begin on; null if all of it may be loaded

    bool holds(const void* address, int bytes) const;
    Written oldest(const void* address, int bytes) const;
  };
  enum class Refusal : std::uint8_t { none, read_only, unwritten, write_only };

  static Refusal refusal_of(const Buffer& buffer, Access access, const void* address, int bytes);
  static std::string_view sentence_of(Refusal refusal, Access access);
  std::string check(Access access, const void* address, int bytes, int alignment) const;
  std::string names() const;

  std::vector<Buffer> buffers_;
};

}  // namespace fa2::interpreter
