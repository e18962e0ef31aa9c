// Names of the public enumerations.
#include <fa2/attention.h>
#include <fa2/types.h>

namespace fa2 {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
  }
  return "invalid";
}

std::string_view to_string(MaskKind mask) {
  switch (mask) {
    case MaskKind::none:
      return "none";
    case MaskKind::causal_bottom_right:
      return "causal_bottom_right";
    case MaskKind::causal_top_left:
      return "causal_top_left";
  }
  return "invalid";
}

std::string_view to_string(RowAlignment alignment) {
  switch (alignment) {
    case RowAlignment::bytes16:
      return "bytes16";
    case RowAlignment::element:
      return "element";
    case RowAlignment::bytes16_any_order:
      return "bytes16_any_order";
  }
  return "invalid";
}

std::string_view to_string(KernelOrigin origin) {
  switch (origin) {
    case KernelOrigin::memory:
      return "memory";
    case KernelOrigin::read_only_cache:
      return "read_only_cache";
    case KernelOrigin::disk_cache:
      return "disk_cache";
    case KernelOrigin::compiled:
      return "compiled";
  }
  return "invalid";
}

std::string_view to_string(ConfigOrigin origin) {
  switch (origin) {
    case ConfigOrigin::pinned:
      return "pinned";
    case ConfigOrigin::tuned_now:
      return "tuned_now";
    case ConfigOrigin::tuned_exact:
      return "tuned_exact";
    case ConfigOrigin::tuned_nearest:
      return "tuned_nearest";
    case ConfigOrigin::tuned_other_device:
      return "tuned_other_device";
    case ConfigOrigin::heuristic:
      return "heuristic";
    case ConfigOrigin::fallback:
      return "fallback";
  }
  return "invalid";
}

}  // namespace fa2
