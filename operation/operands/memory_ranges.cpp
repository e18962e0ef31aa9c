// Computes the byte ranges of operands.
#include <operation/operands/memory_ranges.h>
#include <operation/operands/overlap.h>

#include <cstddef>
#include <cstdint>

namespace fa2 {

MemoryRange memory_of(const Operand& operand, Access access) {
  const ByteRange range = range_of(operand);
  return {.name = operand.name,
          .begin = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(range.begin)),
          .bytes = static_cast<std::size_t>(range.end - range.begin),
          .access = access,
          .initialised = operand.access != Access::write};
}

std::vector<MemoryRange> OperandMemory::ranges() const {
  std::vector<MemoryRange> ranges;
  for (const Operand& operand : operands_) {
    if (!operand.is_absent()) ranges.push_back(memory_of(operand, operand.access));
  }
  return ranges;
}

}  // namespace fa2
