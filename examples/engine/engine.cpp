// One step, from the queue to the generated tokens.
#include "engine.h"

namespace example {

StepReport Engine::step() {
  const Step step = scheduler_.next();                         // admits, and preempts if pages run out
  const PackedStep batch = packed(step, attention_.layout());  // decode tokens and prefill chunks
  const LayerRows qkv = model_.qkv(batch.tokens);              // on the CPU
  const LayerRows o = attention_.run(batch, qkv);              // appends and attends, in each layer
  const Matrix<float> logits = model_.logits(o, batch.sampled_rows);
  if (keeps_traces_) add_to(traces_, step, o, logits);
  scheduler_.commit(step, best_tokens(logits));  // retires what is complete
  return {step.decode_tokens, step.prefill_tokens, attention_.milliseconds(), attention_.ran_graph()};
}

}  // namespace example
