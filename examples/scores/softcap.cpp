// A softcap, as in Gemma 2. Kernels of gradients derive its slope from the text.
#include <cmath>

#include "functions.h"

namespace example {

Function softcap(const ScoreSizes&) {
  constexpr double kCap = 2;
  return {
      .name = "softcap",
      .texts = {.mod = "return cap() * tanh(score / cap());"},
      .captures = {captured("cap", 2)},
      .host = {.mod = [](double score, const At&) { return kCap * std::tanh(score / kCap); },
               .slope = [](double score, const At&) { return 1 - std::pow(std::tanh(score / kCap), 2); }}};
}

}  // namespace example
