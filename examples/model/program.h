// What the examples' programs do alike.
#pragma once

#include <CLI/CLI.hpp>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace example {

/// Parses, then runs `body`, whose exit status it returns; 2 for a wrong command line, 1 for an exception, which it prints.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

/// Open before the work, so that a path that cannot be written is known in time. @throws std::runtime_error if it cannot.
std::ofstream opened(const std::string& path);

/// "NAME is VALUE, must be at most LIMIT", unless it is.
void require_at_most(double limit, const char* name, double value, std::vector<std::string>& complaints);

/// The exit status of --check; prints what there is to complain about.
int judge(const CLI::App& app, const std::vector<std::string>& complaints);

}  // namespace example
