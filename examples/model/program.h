// What the examples' programs share: command lines, files and checks.
#pragma once

#include <CLI/CLI.hpp>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace example {

/// Parses, then runs `body` and returns its exit status. Returns 2 for a wrong command line, and 1 for an exception, which it
/// prints.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

/// Returns an open file. Call it before long work, to learn in time if the path cannot be written. @throws std::runtime_error.
std::ofstream opened(const std::string& path);

/// Adds "NAME is VALUE, must be at most LIMIT" to `complaints` if it is more.
void require_at_most(double limit, const char* name, double value, std::vector<std::string>& complaints);

/// Prints the complaints and returns the exit status of --check.
int judge(const CLI::App& app, const std::vector<std::string>& complaints);

}  // namespace example
