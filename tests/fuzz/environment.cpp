// Values of the environment's variables. An input's first byte chooses the variable.
#include <runtime/env.h>

#include "fuzz.h"

namespace fa2::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const EnvVariable& variable : environment()) {
    const auto number = static_cast<char>(&variable - environment().data());
    all.push_back(number + std::string(variable.default_value));
    all.push_back(number + std::string(variable.values));
  }
  return all;
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  if (size == 0) return 0;
  const EnvVariable& variable = environment()[data[0] % environment().size()];
  const std::string value = fuzz::text_of(data + 1, size - 1);
  for (const Violation& violation : violations_of_variable(variable.name, value)) {
    fuzz::require(violation.field.starts_with(variable.name), "a violation names the variable");
    fuzz::require(violation.rule.starts_with("must "), "a rule says what a value must be");
  }
  return 0;
}
