// Checks the contents of append()'s tables on the host, for FA2_CHECK=1 and the interpreter.
#pragma once

#include <core/append_tables.h>
#include <fa2/append.h>
#include <operation/rules/violations.h>

namespace fa2 {

/// Returns one violation per wrong table: its first wrong entry, and how many more there are. AppendArgs has the rules.
Violations violations_of(const AppendProblem& problem, const AppendTables& tables);

/// Reads and checks the tables of a call, and so waits for `stream`. If `stream` captures, checks nothing and warns once. `args`
/// must be valid and `device` current. @throws InvalidRequest with everything that violations_of() finds; CudaError.
void require_sound_tables(const AppendProblem& problem, const AppendArgs& args, int device, Stream stream);

}  // namespace fa2
