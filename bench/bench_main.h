// The common main function of the benches.
#pragma once

#include <fmt/format.h>
#include <tools/verb.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

namespace fa2::bench {

/// Parses, then runs. Returns the program's exit status. Errors go to stderr after the program's name.
template <class Run>
int run_bench(CLI::App& app, int argc, char** argv, const Run& run) {
  try {
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tools::kOk : tools::kUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
    return tools::kFailed;
  }
}

}  // namespace fa2::bench
