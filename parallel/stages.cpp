#include <parallel/stages.h>

namespace fa2 {

/// Group g arrives in stage g, and is computed one stage later. An exchange follows the kernels of the stage before the last. So results go home two
/// stages after that, and are complete in the next.
std::vector<Stage> stages_of(int groups, bool with_returns) {
  std::vector<Stage> stages;
  const int count = groups + (with_returns ? 4 : 1);
  for (int stage = 0; stage < count; ++stage) {
    const auto group = [&](int delay) {
      const int g = stage - delay;
      return g >= 0 && g < groups ? std::optional(g) : std::nullopt;
    };
    Stage& made = stages.emplace_back();
    made.gathers = group(0), made.computes = group(1);
    if (with_returns) made.returns = group(3), made.completes = group(4);
  }
  return stages;
}

}  // namespace fa2
