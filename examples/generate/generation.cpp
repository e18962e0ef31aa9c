// Each step is one pass of the model over the new tokens of all sequences: first the prompts, then one token each.
#include "generation.h"

#include <algorithm>
#include <chrono>

namespace example {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Generated generate(Model<float>& model, PagedBatch& batch, const std::vector<Tokens>& prompts,
                   std::int64_t tokens) {
  Generated generated;
  generated.sequences = prompts;
  generated.logits.assign(prompts.size(), Matrix<float>(tokens, kBytes));
  std::vector<std::int64_t> new_tokens;
  Tokens packed;
  for (const Tokens& prompt : prompts) {
    new_tokens.push_back(static_cast<std::int64_t>(prompt.size()));
    packed.insert(packed.end(), prompt.begin(), prompt.end());
  }
  for (std::int64_t step = 0; step < tokens; ++step) {
    const auto start = std::chrono::steady_clock::now();
    batch.begin_step(new_tokens);
    const Matrix<float> logits = model.logits(packed);
    packed.clear();
    std::int64_t last = -1;  // row of a sequence's last new token
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      last += new_tokens[b];
      packed.push_back(best_token(logits, last));
      generated.sequences[b].push_back(packed.back());
      std::copy_n(logits.row(last), kBytes, generated.logits[b].row(step));
    }
    new_tokens.assign(prompts.size(), 1);
    (step == 0 ? generated.prefill_seconds : generated.decode_seconds) += seconds_since(start);
  }
  return generated;
}

}  // namespace example
