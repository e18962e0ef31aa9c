// What a launch may touch: operands, as the interpreter is told of them.
#pragma once

#include <operation/operands/operands.h>
#include <runtime/kernel.h>

#include <vector>

namespace fa2 {

/// All bytes of a present operand.
MemoryRange memory_of(const Operand& operand, Access access);

/// All of these operands.
class OperandMemory final : public LaunchMemory {
 public:
  explicit OperandMemory(OperandList operands) : operands_(operands) {}

  std::vector<MemoryRange> ranges() const override;

 private:
  OperandList operands_;
};

}  // namespace fa2
