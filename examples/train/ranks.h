// Ranks that are threads of this program.
#pragma once

#include <fa2/communicator.h>

#include <functional>

namespace example {

/// Calls body(communicator) on a thread per rank, and returns when all have ended. On GPUs rank r uses device r, which is current in the
/// body, and NCCL; on the interpreter ranks exchange host memory. An exception of a rank is printed and ends the program, because the
/// other ranks may wait for this one for ever.
void run_ranks(int ranks, bool on_gpu, const std::function<void(fa2::Communicator&)>& body);

}  // namespace example
