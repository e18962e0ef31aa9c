// The report of ptxas on a kernel, from the compiler's log (--ptxas-options=-v).
#pragma once

#include <fa2/attention.h>

#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

struct PtxasReport {
  /// Registers, spills, stack and static shared memory. `registers` is 0 if the log has no report on the
  /// kernel.
  KernelResources resources;
  /// The C75xx messages: ptxas serialised warpgroup MMAs or added waits.
  std::vector<std::string> wgmma_messages;
};

PtxasReport parse_ptxas_log(std::string_view log, std::string_view entry);

}  // namespace fa2
