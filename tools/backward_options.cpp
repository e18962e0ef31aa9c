// Adds --backward and its options.
#include <tools/backward_options.h>
#include <tools/problem_options.h>

namespace fa2::tools {

CLI::Option* BackwardOptions::add_to(CLI::App& verb, const std::string& description) {
  CLI::Option* backward = verb.add_flag("--backward", wanted, description);
  add_word(verb, "--determinism", gradients.determinism,
           "For the backward: fastest, or bitwise, whose gradients have the same bits in every run")
      ->needs(backward);
  return backward;
}

}  // namespace fa2::tools
