// The table of architectures: look-up, and how many blocks fit an SM.
#include <core/arch.h>
#include <core/gpu_names.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace fa2;

namespace {

/// Returns the name of the arch for a device; "none" if no arch's cubins run on it.
std::string_view arch_name_for(int major, int minor) {
  const Arch* arch = arch_for_device(major, minor);
  return arch != nullptr ? arch->name : "none";
}

}  // namespace

TEST_CASE("arch: by name, with or without the suffix") {
  for (const Arch& arch : known_archs()) CHECK(find_arch(arch.name) == &arch);
  REQUIRE(find_arch("sm_90") != nullptr);
  CHECK(find_arch("sm_90")->name == "sm_90a");
  for (const char* unknown :
       {"", "a", "sm_", "sm_75", "sm_80a", "sm_90b", "sm_900", "SM_80", "80", "sm_80 "}) {
    CAPTURE(std::string(unknown));
    CHECK(find_arch(unknown) == nullptr);
  }
}

TEST_CASE("arch: by a GPU's name, in any spelling") {
  for (const auto& named : std::vector<std::pair<const char*, const char*>>{{"h100", "sm_90a"},
                                                                            {"H200", "sm_90a"},
                                                                            {"a100", "sm_80"},
                                                                            {"A10", "sm_86"},
                                                                            {"l4", "sm_89"},
                                                                            {"L40S", "sm_89"},
                                                                            {"RTX 4090", "sm_89"},
                                                                            {"rtx-5090", "sm_120"},
                                                                            {"b200", "sm_100"}}) {
    CAPTURE(named.first);
    REQUIRE(find_arch(named.first) != nullptr);
    CHECK(find_arch(named.first)->name == named.second);
  }
  for (const char* unknown : {"h10", "v100", "rtx", "-"}) CHECK(find_arch(unknown) == nullptr);
}

TEST_CASE("arch: the names of GPUs are listed by arch, and each arch is in the table") {
  const std::string all = known_gpu_names();
  CHECK(all.starts_with("a100, a30: sm_80; a10, "));
  CHECK(all.ends_with("gb10: sm_121"));
  for (const Arch& arch : known_archs()) {
    const std::string end = ": " + std::string(arch.name);
    CHECK(all.find(end) != std::string::npos);
    CHECK(all.find(end) == all.rfind(end + (all.ends_with(end) ? "" : ";")));
  }
}

TEST_CASE("arch: the newest one whose cubins run on a device") {
  CHECK(arch_name_for(8, 0) == "sm_80");
  CHECK(arch_name_for(8, 6) == "sm_86");
  CHECK(arch_name_for(8, 7) == "sm_87");
  CHECK(arch_name_for(8, 9) == "sm_89");
  CHECK(arch_name_for(9, 0) == "sm_90a");
  CHECK(arch_name_for(10, 0) == "sm_100");
  CHECK(arch_name_for(10, 3) == "sm_103");
  CHECK(arch_name_for(11, 0) == "sm_110");
  CHECK(arch_name_for(12, 0) == "sm_120");
  CHECK(arch_name_for(12, 1) == "sm_121");
}

TEST_CASE("arch: a later minor runs the cubins of an earlier one, unless they are exact") {
  CHECK(arch_name_for(8, 8) == "sm_87");
  CHECK(arch_name_for(10, 1) == "sm_100");
  CHECK(arch_name_for(12, 9) == "sm_121");
  CHECK(arch_name_for(9, 1) == "none");
}

TEST_CASE("arch: none for an older device or another major version") {
  CHECK(arch_name_for(7, 5) == "none");
  CHECK(arch_name_for(7, 10) == "none");  // not 8.0
  CHECK(arch_name_for(13, 0) == "none");
}

TEST_CASE("arch: the table is ascending and consistent") {
  const auto archs = known_archs();
  CHECK(std::ranges::is_sorted(archs, std::ranges::less_equal{}, &Arch::compute_capability));
  for (const Arch& arch : archs) {
    CAPTURE(std::string(arch.name));
    CHECK(arch.exact_only == arch.name.ends_with('a'));
    const std::string name = "sm_" + std::to_string(arch.compute_capability);
    CHECK(arch.name == (arch.exact_only ? name + "a" : name));
    CHECK(arch.shared_per_block + arch.shared_reserved <= arch.shared_per_sm);
  }
}

TEST_CASE("arch: every name is listed in error messages") {
  CHECK(known_arch_names().starts_with("sm_80, sm_86, "));
  for (const Arch& arch : known_archs()) CHECK(known_arch_names().find(arch.name) != std::string::npos);
}

TEST_CASE("resident blocks: limited by registers, allocated per warp in units of 256") {
  const Arch& sm_90 = *find_arch("sm_90a");
  CHECK(resident_blocks(sm_90, 128, 168, 0) == 3);  // 168 * 32 = 21 units; 4 warps take 21504 of 65536
  CHECK(resident_blocks(sm_90, 128, 169, 0) == 2);  // 22 units: 22528, and 3 blocks would need 67584
  CHECK(resident_blocks(sm_90, 128, 255, 0) == 2);
  CHECK(resident_blocks(sm_90, 256, 255, 0) == 1);
  CHECK(resident_blocks(sm_90, 1024, 65, 0) == 0);  // 9 units * 32 warps = 73728
  CHECK(resident_blocks(sm_90, 33, 255, 0) == 4);   // an incomplete warp counts as a whole one
}

TEST_CASE("resident blocks: limited by shared memory, including the driver's share") {
  const Arch& sm_80 = *find_arch("sm_80");
  CHECK(resident_blocks(sm_80, 128, 32, 82944) == 2);  // 2 * (82944 + 1024) = 167936, all of an SM
  CHECK(resident_blocks(sm_80, 128, 32, 82945) == 1);
  CHECK(resident_blocks(sm_80, 128, 32, 166912) == 1);
  CHECK(resident_blocks(sm_80, 128, 32, 166913) == 0);
}

TEST_CASE("resident blocks: limited by threads and by blocks") {
  CHECK(resident_blocks(*find_arch("sm_80"), 512, 32, 0) == 4);
  CHECK(resident_blocks(*find_arch("sm_86"), 512, 32, 0) == 3);
  CHECK(resident_blocks(*find_arch("sm_80"), 32, 8, 0) == 32);
  CHECK(resident_blocks(*find_arch("sm_86"), 32, 8, 0) == 16);
  CHECK(resident_blocks(*find_arch("sm_89"), 32, 8, 0) == 24);
}

TEST_CASE("resident blocks: unknown registers do not limit") {
  CHECK(resident_blocks(*find_arch("sm_80"), 256, 0, 0) == 8);  // 2048 threads
}
