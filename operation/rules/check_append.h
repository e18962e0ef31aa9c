// What tables of append() hold, checked on the host: FA2_CHECK=1, and the interpreter.
#pragma once

#include <core/append_tables.h>
#include <fa2/append.h>
#include <operation/rules/violations.h>

namespace fa2 {

/// The first entry of each table that AppendArgs does not allow, and how many more there are.
Violations violations_of(const AppendProblem& problem, const AppendTables& tables);

/// Reads the tables of valid arguments of a call on `device`, which is current: waits for `stream`. Where that captures
/// nothing can be read: a warning says so once. @throws InvalidRequest with everything that violations_of() finds,
/// CudaError.
void require_sound_tables(const AppendProblem& problem, const AppendArgs& args, int device, Stream stream);

}  // namespace fa2
