// The program's interrupt function ends a launch: between blocks, inside a long one, and while blocks wait
// for each other.
#include <doctest/doctest.h>
#include <fa2/c_machine.h>
#include <interpreter/interpreted_kernel.h>

#include <cstdint>
#include <string>

#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// While it lives, the interrupt function requests an interrupt.
class Interrupting {
 public:
  Interrupting() {
    const auto poll = [](void* asked) -> std::int32_t { return ++*static_cast<int*>(asked); };
    REQUIRE(fa2_set_interrupt(poll, &asked_) == FA2_OK);
  }
  ~Interrupting() { fa2_set_interrupt(nullptr, nullptr); }
  Interrupting(const Interrupting&) = delete;
  Interrupting& operator=(const Interrupting&) = delete;

  int asked() const { return asked_; }

 private:
  int asked_ = 0;
};

/// CHECKs that one request ends the launch, and that the next launch is not affected.
void check_interrupted(const SmallKernel& body, int blocks) {
  const auto kernel = build(body, interpreter::Options{});
  {
    const Interrupting interrupting;
    CHECK_THROWS_AS(launch(*kernel, NoParams{}, {}, blocks), Interrupted);
    CHECK(interrupting.asked() == 1);
  }
  launch(*build({""}, interpreter::Options{}), NoParams{}, {}, 3);
}

}  // namespace

TEST_CASE("an interrupt ends a launch of many blocks") {
  check_interrupted({"bar_warp_sync();"}, 1 << 20);
}

TEST_CASE("an interrupt ends a long block, and the blocks that run next to it") {
  check_interrupted({"for (int i = 0; i < 1 << 22; ++i) bar_warp_sync();"}, 8);
}

TEST_CASE("an interrupt ends blocks that wait for a long one") {
  DeviceBuffer flag(sizeof(std::uint32_t));
  flag.fill(0);
  struct Params {
    std::uint32_t* flag;
  };
  const SmallKernel body{R"(
    if (block_index() == 0) await_global_u32(p.flag, 1);
    else for (int i = 0; i < 1 << 22; ++i) bar_warp_sync();
    )",
                         "u32* flag;"};
  const auto kernel = build(body, interpreter::Options{});
  const Interrupting interrupting;
  CHECK_THROWS_AS(
      launch(*kernel, Params{static_cast<std::uint32_t*>(flag.data())}, Buffers{}.in_out(flag), 2),
      Interrupted);
}

TEST_CASE("a function that requests no interrupt changes nothing") {
  REQUIRE(fa2_set_interrupt([](void*) -> std::int32_t { return 0; }, nullptr) == FA2_OK);
  launch(*build({"for (int i = 0; i < 1 << 12; ++i) bar_warp_sync();"}, interpreter::Options{}), NoParams{},
         {}, 100);
  CHECK(fa2_set_interrupt(nullptr, nullptr) == FA2_OK);
}
