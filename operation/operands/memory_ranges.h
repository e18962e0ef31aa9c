// The memory of operands, as the interpreter needs it.
#pragma once

#include <operation/operands/operands.h>
#include <runtime/kernel.h>

#include <vector>

namespace fa2 {

/// Returns all bytes of an operand that is not absent.
MemoryRange memory_of(const Operand& operand, Access access);

/// Allows a launch to touch all of these operands, as they are listed. They must outlive it.
class OperandMemory final : public LaunchMemory {
 public:
  explicit OperandMemory(OperandList operands) : operands_(operands) {}

  std::vector<MemoryRange> ranges() const override;

 private:
  OperandList operands_;
};

}  // namespace fa2
