// The log of ptxas.
#include <runtime/ptxas_log.h>

#include <algorithm>

#include "fuzz.h"

namespace fa2::fuzz {

std::vector<std::string> seeds() {
  return {
      "ptxas info    : Compiling entry function 'fa2_entry' for 'sm_90a'\n"
      "ptxas info    : Function properties for fa2_entry\n"
      "    232 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 232 bytes cumulative stack size, 1024 bytes "
      "smem\n",
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"};
}

}  // namespace fa2::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fa2;
  const std::string log = fuzz::text_of(data, size);
  const PtxasReport report = parse_ptxas_log(log, "fa2_entry");
  const KernelResources& used = report.resources;
  const std::int32_t least = std::min({used.registers, used.spill_store_bytes, used.spill_load_bytes,
                                       used.stack_bytes, used.static_shared_bytes});
  fuzz::require(least >= 0, "no resource is negative");
  for (const std::string& message : report.wgmma_messages)
    fuzz::require(log.find(message) != std::string::npos, "a message is a line of the log");
  return 0;
}
