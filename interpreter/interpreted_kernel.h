// A kernel that was compiled for the CPU, loaded and ready to be interpreted.
#pragma once

#include <interpreter/options.h>
#include <runtime/kernel.h>

#include <memory>

namespace fa2::interpreter {

/// Loads a kernel. Its launch() returns when all blocks have run, on all cores. @throws KernelFault for the
/// first violated PTX rule, Interrupted (runtime/interrupt.h), Unavailable if the binary cannot be loaded.
std::shared_ptr<const Kernel> load_interpreted_kernel(const KernelBinary& binary, const Options& options);

}  // namespace fa2::interpreter
