// The buffers that a launch may touch.
#pragma once

#include <runtime/kernel.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// Used by all blocks of a launch at once. Every function that returns a string returns the rule that was
/// broken; empty if none was.
class GlobalMemory {
 public:
  explicit GlobalMemory(const std::vector<MemoryRange>& ranges);

  /// What Access::write covers counts as unwritten until a block has written it.
  std::string check_load(const void* from, int bytes, int alignment) const;
  std::string check_store(const void* to, int bytes, int alignment) const;
  /// A store that was checked.
  void note_store(const void* to, int bytes);

 private:
  struct Buffer {
    MemoryRange range;
    std::unique_ptr<std::atomic<bool>[]> written;  ///< per two bytes where access is write
  };
  const Buffer* find(const void* address, int bytes, bool writing) const;
  std::string describe(const char* what, const void* address, int bytes) const;

  std::vector<Buffer> buffers_;
};

}  // namespace fa2::interpreter
