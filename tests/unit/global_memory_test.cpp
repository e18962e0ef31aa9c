// What an interpreted kernel may do with a range of memory, by the access that its launch is given.
#include <doctest/doctest.h>
#include <interpreter/global_memory.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace fa2;
using fa2::interpreter::GlobalMemory;

namespace {

alignas(16) std::byte memory[64];

MemoryRange range(std::string_view name, std::size_t begin, std::size_t bytes, Access access) {
  return {name, memory + begin, bytes, access};
}

bool says(const std::string& broken, const char* part) {
  return broken.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("global memory: an input is loaded, never stored to") {
  const GlobalMemory global({range("in", 0, 16, Access::read)});
  CHECK(global.check_load(memory, 16, 16).empty());
  CHECK(says(global.check_store(memory, 4, 4), "in the input in"));
}

TEST_CASE("global memory: what is only written may be loaded once it was") {
  GlobalMemory global({range("out", 0, 16, Access::write)});
  CHECK(says(global.check_load(memory + 4, 4, 4), "in out, which nothing has written"));
  CHECK(global.check_store(memory + 4, 4, 4).empty());
  global.note_store(memory + 4, 4);
  CHECK(global.check_load(memory + 4, 4, 4).empty());
  CHECK(says(global.check_load(memory, 8, 8), "which nothing has written"));
}

TEST_CASE("global memory: what is read and written holds something from the start") {
  GlobalMemory global({range("sums", 0, 16, Access::read_write)});
  CHECK(global.check_load(memory, 16, 16).empty());
  CHECK(global.check_store(memory, 4, 4).empty());
  global.note_store(memory, 4);
  CHECK(global.check_load(memory, 16, 16).empty());
  CHECK(says(global.check_store(memory + 16, 4, 4), "outside the buffers"));
}

TEST_CASE("global memory: of ranges that hold an address, the one that allows the access counts") {
  for (const Access access : {Access::write, Access::read_write}) {
    for (const bool input_first : {false, true}) {
      const MemoryRange in = range("in", 0, 64, Access::read), out = range("out", 16, 16, access);
      GlobalMemory global(input_first ? std::vector{in, out} : std::vector{out, in});
      CHECK(global.check_store(memory + 16, 16, 16).empty());
      global.note_store(memory + 16, 16);
      CHECK(global.check_load(memory + 16, 16, 16).empty());
      CHECK(says(global.check_store(memory, 4, 4), "in the input in"));
    }
  }
}
