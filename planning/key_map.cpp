// One part of the scratch, which one step writes and the next one reads.
#include <generator/key_map_layout.h>
#include <planning/key_map.h>
#include <planning/step_request.h>

#include <utility>

namespace fa2 {

ConfigChoice key_map_choice(const KernelConfig& config) {
  return {key_map_config(config), ConfigOrigin::heuristic, "the only kernel that maps what a mask shows", {}};
}

void add_key_map(Plan& plan, const AttentionProblem& problem, Step& attention,
                 std::shared_ptr<const Kernel> kernel) {
  Step map = kernels::key_map.make_step(
      {.problem = problem, .config = key_map_config(attention.config), .kernel = std::move(kernel)});
  map.texts.map_part = {
      .bytes = attention.texts.map.bytes(), .access = Access::write, .begin = plan.workspace.scratch_bytes};
  attention.texts.map_part = map.texts.map_part;
  attention.texts.map_part.access = Access::read;
  plan.add(std::move(map));
  attention.scratch.begin = plan.workspace.scratch_bytes;
}

}  // namespace fa2
