// The text of FA2_CONFIG, and the rules that judge what it says.
#include <fa2/config.h>
#include <fa2/errors.h>
#include <generator/config_space.h>

#include "fuzz.h"

namespace fa2::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> all;
#define FA2_SEED(name) all.push_back(to_string(default_config(KernelId::name)));
  FA2_KERNELS(FA2_SEED)
#undef FA2_SEED
  all.push_back("kernel=forward_sm90");
  all.push_back("tile_m=128,tile_n=64");
  return all;
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  try {
    const KernelConfig config = parse_config(fuzz::text_of(data, size));
    fuzz::require(parse_config(to_string(config)) == config, "a printed config is parsed to the same");
    const PlannedProblem problem =
        PlannedProblem({.head_dim = 64, .seqlen_q = 512, .seqlen_k = 512}, {}).normalized();
    for (const char* arch : {"sm_80", "sm_90a"})
      static_cast<void>(why_rejected(problem, config, *find_arch(arch)));
  } catch (const InvalidRequest& error) {
    fuzz::require(!error.violations().empty(), "an error says what is wrong");
  }
  return 0;
}
