// The common parts of the command's verbs.
#pragma once

#include <tools/mistakes.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fa2::tools {

using Json = nlohmann::ordered_json;

/// Exit statuses. A verb throws fa2::Error for 1, with a message, and CLI::ParseError for 2.
enum Status : int { kOk = 0, kFailed = 1, kUsage = 2 };

struct Verb {
  CLI::App* app;
  std::function<int()> run;  ///< runs after parsing; returns the exit status
  /// Notes mistakes that CLI11 does not find. Called before run(), and if parsing failed, so that one message
  /// lists everything.
  std::function<void(Mistakes&)> check = {};
};

Verb add_info(CLI::App& app);
Verb add_run(CLI::App& app);
Verb add_bench(CLI::App& app);
Verb add_tune(CLI::App& app);
Verb add_precompile(CLI::App& app);
Verb add_cache(CLI::App& app);
Verb add_pack(CLI::App& app);
Verb add_explain(CLI::App& app);
Verb add_dump(CLI::App& app);

/// Adds a subcommand with `--json`. Its help ends with `details`, if any, and an example.
CLI::App* add_verb(CLI::App& app, const std::string& name, const std::string& description,
                   const std::string& example, const std::string& details = {});

/// Returns whether `--json` was given.
bool wants_json(const CLI::App& verb);

/// Prints the single document of `--json` to stdout.
void print_json(const Json& json);

}  // namespace fa2::tools
