// One part of the scratch, which one step writes and the next one reads.
#include <generator/key_map_layout.h>
#include <planning/key_map.h>
#include <planning/step_request.h>

#include <utility>

namespace fa2 {

ConfigChoice key_map_choice(const KernelConfig& config) {
  return {key_map_config(config), ConfigOrigin::heuristic, "the only kernel that maps what a mask shows", {}};
}

void add_key_map(Plan& plan, const AttentionProblem& problem, Step& reader,
                 std::shared_ptr<const Kernel> kernel, std::size_t begin) {
  Step map = kernels::key_map.make_step(
      {.problem = problem, .config = key_map_config(reader.config), .kernel = std::move(kernel)});
  map.texts.map_part = {.bytes = reader.texts.map.bytes(), .access = Access::write, .begin = begin};
  reader.texts.map_part = map.texts.map_part;
  reader.texts.map_part.access = Access::read;
  plan.add(std::move(map));
}

}  // namespace fa2
