// How kernels are launched. planning/steps defines the functions: a step needs operands and a workspace, which this room does
// not know.
#pragma once

#include <fa2/config.h>

namespace fa2 {

struct Step;
struct StepRequest;

// "forward_sm80_step", for every kernel. One that is launched like another, as most of the backward are, uses the other's: its own
// is not defined.
#define FA2_DECLARE(name) Step name##_step(const StepRequest& request);
FA2_KERNELS(FA2_DECLARE)
#undef FA2_DECLARE

}  // namespace fa2
