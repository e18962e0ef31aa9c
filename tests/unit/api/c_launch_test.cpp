// fa2/c_launch.h: rejected launches, and the device that functions run on. Python's suites test launches.
#include <doctest/doctest.h>
#include <fa2/c_launch.h>
#include <runtime/device.h>

#include <string>

using namespace fa2;

namespace {

std::string complaint_of(const fa2_launch* launch) {
  const fa2_problem problem = FA2_PROBLEM_INIT;
  const fa2_args args = FA2_ARGS_INIT;
  REQUIRE(fa2_launch_attention(&problem, &args, launch) == FA2_INVALID_REQUEST);
  return fa2_last_error();
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("c launch: a launch that is missing or not initialised") {
  CHECK(has(complaint_of(nullptr), "launch = NULL"));
  fa2_launch launch = FA2_LAUNCH_INIT;
  launch.struct_size = 8;
  launch.place.row_alignment = 7;
  launch.allocate = [](int32_t, void*, size_t, size_t, void**) -> void* { return nullptr; };
  const std::string all = complaint_of(&launch);
  CHECK(has(all, "launch.struct_size = 8, must be "));
  CHECK(has(all, "launch.place.row_alignment = 7, must be "));
  CHECK(has(all, "launch.release = NULL, must be given with allocate"));
  const fa2_problem problem = FA2_PROBLEM_INIT;
  const fa2_backward_args backward = FA2_BACKWARD_ARGS_INIT;
  CHECK(fa2_launch_backward(&problem, &backward, &launch) == FA2_INVALID_REQUEST);
}

TEST_CASE("c launch: a body runs on the named device, and its status is returned") {
  const auto note = [](void* data) -> fa2_status {
    *static_cast<int*>(data) = current_device();
    return FA2_CACHE;
  };
  int device = 0;
  CHECK(fa2_on_device(FA2_INTERPRETER_DEVICE, note, &device) == FA2_CACHE);
  CHECK(device == kInterpreterDevice);
  CHECK(fa2_on_device(FA2_INTERPRETER_DEVICE, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(has(fa2_last_error(), "body = NULL, must be given"));
}
