// The buffers that a launch may access.
#pragma once

#include <runtime/kernel.h>
#include <runtime/written_bytes.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::interpreter {

/// Used by all blocks of a launch at once. Functions that return a string return the violated rule as a
/// sentence; empty if none.
class GlobalMemory {
 public:
  /// The buffers of one launch. `written`: bytes that earlier launches wrote; it must outlive this object.
  /// `begins_early`: whether the launch may begin while the one before it runs.
  GlobalMemory(const std::vector<MemoryRange>& ranges, WrittenBytes& written, bool begins_early = false);

  /// Uninitialised memory may be loaded after it was written: by this launch if access is Access::write, else
  /// by any launch of the plan run.
  std::string check(Access access, const void* address, int bytes, int alignment) const;
  std::string check_load(const void* from, int bytes, int alignment) const;
  std::string check_store(const void* to, int bytes, int alignment) const;
  /// Checks a read-modify-write as a load and a store.
  std::string check_atomic(const void* address, int bytes, int alignment) const;
  /// Checks an access of a thread that has not waited for the launches before. Those before a plan run may have written anything.
  std::string check_order(const void* address, int bytes) const;
  /// Notes a store or an atomic, after its check.
  void note_store(const void* to, int bytes);

 private:
  struct Buffer {
    MemoryRange range;
    WrittenBytes::Cell* written;  ///< cells from range.begin on; null if all of it may be loaded

    bool holds(const void* address, int bytes) const;
    Written oldest(const void* address, int bytes) const;
    /// Returns whether the last store to some byte is an earlier launch's.
    bool has_earlier(const void* address, int bytes) const;
  };
  enum class Refusal : std::uint8_t { none, read_only, unwritten, write_only };

  static Refusal refusal_of(const Buffer& buffer, Access access, const void* address, int bytes);
  static std::string_view sentence_of(Refusal refusal, Access access);
  std::string names() const;

  std::vector<Buffer> buffers_;
  bool begins_early_;
  bool is_first_;  ///< of the plan run
};

}  // namespace fa2::interpreter
