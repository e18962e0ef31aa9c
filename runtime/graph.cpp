// Keeps objects alive with CUDA user objects: reference counts that graphs hold.
#include <runtime/device.h>
#include <runtime/driver.h>
#include <runtime/graph.h>

#include <utility>

namespace fa2 {
namespace {

using Kept = std::shared_ptr<const void>;

/// A driver thread calls this.
void CUDA_CB release(void* kept) {
  delete static_cast<Kept*>(kept);
}

}  // namespace

Capture capture_of(Stream stream) {
  // The default stream cannot be captured, and the interpreter has no streams.
  if (stream == nullptr || interpreting() || !is_capturing(stream)) return {};
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t number = 0;
  Graph graph = nullptr;
  check(driver().stream_get_capture_info(stream, &status, &number, &graph, nullptr, nullptr),
        "cuStreamGetCaptureInfo");
  return {graph, number};
}

void keep_with(Graph graph, Kept object) {
  auto kept = std::make_unique<Kept>(std::move(object));
  CUuserObject owner = nullptr;
  check(driver().user_object_create(&owner, kept.get(), release, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
        "cuUserObjectCreate");
  static_cast<void>(kept.release());  // `owner` has it now
  const CUresult result = driver().graph_retain_user_object(graph, owner, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result != CUDA_SUCCESS) warn_unless_ok(driver().user_object_release(owner, 1), "cuUserObjectRelease");
  check(result, "cuGraphRetainUserObject");
}

}  // namespace fa2
