// config.json of Hugging Face models. The seeds are those of tests/hf_configs.
#include <fa2/errors.h>
#include <tools/hf_config.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "fuzz.h"

namespace fa2::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(FA2_SOURCE_DIR "/tests/hf_configs")) {
    std::ifstream file(entry.path());
    all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return all;
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  try {
    const tools::HfModel model = tools::parse_hf_model(fuzz::text_of(data, size), "config.json");
    fuzz::require(model.head_dim > 0, "the head dim is above 0");
    for (const std::string& answer : {model.window, model.chunk, model.softcap, model.sinks, model.latents}) {
      const bool is_answer = answer == "yes" || answer == "no" || answer == "both";
      fuzz::require(is_answer, "an answer is yes, no or both");
    }
  } catch (const InvalidRequest& error) {
    fuzz::require(!error.violations().empty(), "an error says what is wrong");
  }
  return 0;
}
