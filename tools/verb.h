// What every verb of the command has in common.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fa2::tools {

using Json = nlohmann::ordered_json;

/// Exit statuses; a verb throws fa2::Error for 1 with a message and CLI::ParseError for 2.
enum Status : int { kOk = 0, kFailed = 1, kUsage = 2 };

struct Verb {
  CLI::App* app;
  std::function<int()> run;  ///< after parsing; returns the exit status
};

Verb add_info(CLI::App& app);
Verb add_run(CLI::App& app);
Verb add_bench(CLI::App& app);
Verb add_tune(CLI::App& app);
Verb add_precompile(CLI::App& app);
Verb add_cache(CLI::App& app);
Verb add_explain(CLI::App& app);
Verb add_dump(CLI::App& app);

/// A subcommand with `--json`; below its help come `details`, if any, and an example.
CLI::App* add_verb(CLI::App& app, const std::string& name, const std::string& description,
                   const std::string& example, const std::string& details = {});

/// Whether `--json` was given.
bool wants_json(const CLI::App& verb);

/// The one document of `--json`, on stdout.
void print_json(const Json& json);

}  // namespace fa2::tools
