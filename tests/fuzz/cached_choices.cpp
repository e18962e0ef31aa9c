// Specs of cached kernels, among which a replacement is chosen. An input is a list of lines; those that begin with "+" have the
// start that all specs of the problem have.
#include <autotune/cached_choices.h>
#include <generator/config_space.h>
#include <generator/kernel_source.h>

#include <sstream>

#include "fuzz.h"

namespace fa2::fuzz {
namespace {

struct Request {
  PlannedProblem problem =
      PlannedProblem({.head_dim = 64, .batch = 2, .heads_q = 8, .seqlen_q = 512, .seqlen_k = 512}, {})
          .normalized();
  Arch arch = *find_arch("sm_90a");
  ConfigChoice choice;
  std::string start;

  Request() {
    start = render({traits_of(problem), choice.config, arch}).spec;
    start.resize(start.size() - to_string(choice.config).size());
  }
};

const Request& request() {
  static const Request only;
  return only;
}

}  // namespace

std::vector<std::string> seeds() {
  KernelConfig other;
  other.tile_m = 128;
  return {"+" + to_string(default_config(KernelId::forward_sm90)),
          "+" + to_string(other) + "\n+" + to_string(KernelConfig{}), request().start + "tile_n=64"};
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  const auto& [problem, arch, choice, start] = fuzz::request();
  std::vector<std::string> cached;
  std::istringstream lines(fuzz::text_of(data, size));
  for (std::string line; std::getline(lines, line);)
    cached.push_back(line.starts_with('+') ? start + line.substr(1) : line);
  const std::vector<ConfigChoice> choices = cached_choices(choice, {}, cached, problem, arch);
  fuzz::require(choices.size() <= cached.size(), "there are at most as many choices as kernels");
  for (const ConfigChoice& found : choices) {
    fuzz::require(!why_rejected(problem, found.config, arch), "a replacement can compute the problem");
    fuzz::require(found.config != choice.config, "a replacement is another config");
  }
  return 0;
}
