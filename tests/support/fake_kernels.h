// Kernels that compute nothing, for tests of what is launched.
#pragma once

#include <fa2/attention.h>
#include <runtime/kernel.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fa2::test {

/// Counts its launches, without allocating.
class IdleKernel final : public Kernel {
 public:
  void launch(const LaunchShape&, const void*, std::size_t, Stream, const LaunchMemory*) const override {
    ++launches;
  }
  mutable std::atomic<int> launches = 0;
};

struct Launch {
  std::string kernel;
  std::uint32_t grid = 0;
  std::vector<std::byte> params;
  std::vector<MemoryRange> ranges;
};

/// Appends its launches to a list that several kernels may share.
class RecordingKernel final : public Kernel {
 public:
  RecordingKernel(std::string name, std::vector<Launch>& launches)
      : name_(std::move(name)), launches_(launches) {}

  void launch(const LaunchShape& shape, const void* params, std::size_t size, Stream,
              const LaunchMemory* memory) const override {
    const auto* const bytes = static_cast<const std::byte*>(params);
    launches_.push_back({name_, shape.grid, {bytes, bytes + size}, memory->ranges()});
  }

 private:
  std::string name_;
  std::vector<Launch>& launches_;
};

/// Returns "NAME:ACCESS".
inline std::string use_text(std::string_view name, Access access) {
  constexpr const char* kAccesses[] = {"read", "write", "read_write"};
  return std::string(name) + ":" + kAccesses[static_cast<std::size_t>(access)];
}

/// Returns "NAME:ACCESS" of each range.
inline std::string text_of(const std::vector<MemoryRange>& ranges) {
  std::string text;
  for (const MemoryRange& range : ranges)
    text += (text.empty() ? "" : " ") + use_text(range.name, range.access);
  return text;
}

}  // namespace fa2::test
