// What an interpreted kernel may do with a range of memory. This depends on the declared access and on the
// writes of earlier launches.
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
  return {.name = name, .begin = memory + begin, .bytes = bytes, .access = access};
}

/// Returns a range without contents at the start of the plan's run.
MemoryRange workspace(std::size_t begin, std::size_t bytes, Access access) {
  MemoryRange range = ::range("workspace", begin, bytes, access);
  range.initialised = false;
  return range;
}

/// Makes a store that must be allowed.
void store(GlobalMemory& global, std::size_t at, int bytes) {
  CHECK(global.check_store(memory + at, bytes, 1) == "");
  global.note_store(memory + at, bytes);
}

bool says(const std::string& broken, const char* part) {
  return broken.find(part) != std::string::npos;
}

constexpr Access kAccesses[] = {Access::read, Access::write, Access::read_write};

}  // namespace

TEST_CASE("global memory: an input may be loaded, never stored to") {
  WrittenBytes written;
  const GlobalMemory global({range("in", 0, 16, Access::read)}, written);
  CHECK(global.check_load(memory, 16, 16) == "");
  CHECK(says(global.check_store(memory, 4, 4), "in in, which this launch may only read"));
  CHECK(says(global.check_atomic(memory, 4, 4), "in in, which this launch may only read"));
}

TEST_CASE("global memory: a range that is only written may be loaded once it was written") {
  WrittenBytes written;
  GlobalMemory global({range("out", 0, 16, Access::write)}, written);
  CHECK(says(global.check_load(memory + 4, 4, 4), "in out, which nothing has written"));
  CHECK(says(global.check_atomic(memory + 4, 4, 4), "in out, which nothing has initialised"));
  store(global, 4, 4);
  CHECK(global.check_load(memory + 4, 4, 4) == "");
  CHECK(global.check_atomic(memory + 4, 4, 4) == "");
  CHECK(says(global.check_load(memory, 8, 8), "which nothing has written"));
}

TEST_CASE("global memory: a range that is read and written has contents from the start") {
  WrittenBytes written;
  GlobalMemory global({range("sums", 0, 16, Access::read_write)}, written);
  CHECK(global.check_load(memory, 16, 16) == "");
  CHECK(global.check_atomic(memory, 4, 4) == "");
  store(global, 0, 4);
  CHECK(global.check_load(memory, 16, 16) == "");
  CHECK(says(global.check_store(memory + 16, 4, 4), "outside the buffers"));
}

TEST_CASE("global memory: with any access, bytes without contents may not be read") {
  for (const Access access : kAccesses) {
    WrittenBytes written;
    const GlobalMemory global({workspace(0, 16, access)}, written);
    CHECK(says(global.check_load(memory, 4, 4), "in workspace, which nothing has written"));
    CHECK(says(global.check_atomic(memory, 4, 4), "in workspace, which "));
    CHECK(says(global.check_store(memory, 4, 4), "may only read") == (access == Access::read));
  }
}

TEST_CASE("global memory: a launch may read what an earlier launch of the run wrote, if it declares so") {
  for (const Access first : {Access::write, Access::read_write}) {
    for (const Access second : {Access::read, Access::read_write}) {
      WrittenBytes written;
      GlobalMemory writer({workspace(0, 16, first)}, written);
      store(writer, 4, 4);
      const GlobalMemory reader({workspace(0, 16, second)}, written);
      CHECK(reader.check_load(memory + 4, 4, 4) == "");
      CHECK(reader.check_atomic(memory + 4, 4, 4).empty() == (second == Access::read_write));
      CHECK(says(reader.check_load(memory + 8, 4, 4), "in workspace, which nothing has written"));
    }
  }
}

TEST_CASE("global memory: a launch that only writes may not read what others wrote") {
  for (const bool initialised : {false, true}) {
    WrittenBytes written;
    MemoryRange sums = workspace(0, 16, Access::write);
    sums.initialised = initialised;
    GlobalMemory first({sums}, written);
    store(first, 4, 4);
    GlobalMemory second({sums}, written);
    const char* const kRule = "in workspace, of which this launch may read only what it has written itself";
    CHECK(says(second.check_load(memory + 4, 4, 4), kRule));
    CHECK(says(second.check_atomic(memory + 4, 4, 4), kRule));
    CHECK(says(second.check_load(memory, 4, 4), kRule) == initialised);
    store(second, 4, 4);
    CHECK(second.check_load(memory + 4, 4, 4) == "");
  }
}

TEST_CASE("global memory: a launch's writes still count two launches later") {
  WrittenBytes written;
  GlobalMemory first({workspace(0, 16, Access::write)}, written);
  store(first, 0, 4);
  GlobalMemory second({workspace(32, 16, Access::write)}, written);
  store(second, 32, 4);
  const GlobalMemory third({workspace(0, 16, Access::read), workspace(32, 16, Access::read)}, written);
  CHECK(third.check_load(memory, 4, 4) == "");
  CHECK(third.check_load(memory + 32, 4, 4) == "");
  CHECK(says(third.check_load(memory + 36, 4, 4), "nothing has written"));
}

TEST_CASE("global memory: launches may divide a workspace in different ways") {
  WrittenBytes written;
  GlobalMemory first({workspace(0, 16, Access::write), workspace(16, 16, Access::write)}, written);
  store(first, 12, 4);
  store(first, 16, 4);
  GlobalMemory second({workspace(8, 16, Access::read_write), workspace(40, 8, Access::write)}, written);
  CHECK(second.check_load(memory + 12, 8, 4) == "");
  CHECK(says(second.check_load(memory + 20, 4, 4), "nothing has written"));
  store(second, 20, 4);
  const GlobalMemory third({workspace(0, 64, Access::read)}, written);
  CHECK(third.check_load(memory + 12, 12, 4) == "");
  CHECK(says(third.check_load(memory + 12, 16, 4), "nothing has written"));
  CHECK(says(third.check_load(memory + 32, 4, 4),
             "nothing has written"));  // between the two ranges that were written
}

TEST_CASE("global memory: if several ranges hold an address, one that allows the access suffices") {
  for (const Access access : {Access::write, Access::read_write}) {
    for (const bool input_first : {false, true}) {
      const MemoryRange in = range("in", 0, 64, Access::read), out = range("out", 16, 16, access);
      WrittenBytes written;
      GlobalMemory global(input_first ? std::vector{in, out} : std::vector{out, in}, written);
      store(global, 16, 16);
      CHECK(global.check_load(memory + 16, 16, 16) == "");
      CHECK(says(global.check_store(memory, 4, 4), "in in, which this launch may only read"));
    }
  }
}
