// New plans in the log.
#pragma once

#include <fa2/attention.h>

#include <string>
#include <string_view>

namespace fa2 {

/// Returns one line: the plan's problem and device, and per kernel its kind, config, origin of the config and of the binary.
/// `what` names the plan: "plan", "backward plan".
std::string plan_line(std::string_view what, const Explanation& plan);

/// Logs plan_line() at debug level.
void log_plan(std::string_view what, const Explanation& plan);

}  // namespace fa2
