// What ptxas says of a kernel in the compiler's log (--ptxas-options=-v).
#pragma once

#include <fa2/attention.h>

#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

struct PtxasReport {
  /// registers, spills, stack and static shared memory; registers is 0 if the log has no report on the
  /// kernel.
  KernelResources resources;
  /// The C75xx messages: ptxas had to serialise warpgroup MMAs or to add waits of its own.
  std::vector<std::string> wgmma_messages;
};

PtxasReport parse_ptxas_log(std::string_view log, std::string_view entry);

}  // namespace fa2
