// How kernels are launched. planning/steps defines the functions: a step needs operands and a workspace, which this room does
// not know.
#pragma once

namespace fa2 {

struct Step;
struct StepRequest;

Step append_step(const StepRequest& request);
Step backward_sm80_step(const StepRequest& request);
Step backward_sm90_step(const StepRequest& request);
Step dropout_mask_step(const StepRequest& request);
Step forward_sm80_step(const StepRequest& request);
Step forward_sm90_step(const StepRequest& request);
Step forward_split_step(const StepRequest& request);
Step merge_step(const StepRequest& request);

}  // namespace fa2
