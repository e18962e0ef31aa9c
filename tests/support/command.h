// The fa2 command, run as a user runs it. The suite must define FA2_COMMAND, its path.
#pragma once

#include <doctest/doctest.h>
#include <runtime/env.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cache_fixtures.h"
#include "temporary_directory.h"

#ifdef FA2_COMMAND
#include <tools/npy.h>

namespace fa2::test {

using Json = nlohmann::json;

/// The results of a run of the command.
struct Result {
  int status = -1;
  std::string out;
  std::string err;

  Json json() const { return Json::parse(out); }
  bool says(const std::string& text) const { return err.find(text) != std::string::npos; }
};

/// Runs the fa2 command without a GPU, even if the machine has one, and with its own cache and settings.
class Command {
 public:
  Result run(const std::string& arguments, const std::string& variables = {}) const {
    std::string line = "env";
    for (const fa2::EnvVariable& variable : fa2::environment()) {
      if (variable.name != "FA2_NVRTC") line += " -u " + std::string(variable.name);
    }
    line += " CUDA_VISIBLE_DEVICES= FA2_CACHE_DIR=" + (dir_ / "cache").string() + " " + variables;
    line += " " FA2_COMMAND " " + arguments;
    line += " >" + (dir_ / "out").string() + " 2>" + (dir_ / "err").string() + " </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, fa2::test::read_text(dir_ / "out"),
            fa2::test::read_text(dir_ / "err")};
  }

  std::filesystem::path file(const std::string& name) const { return dir_ / name; }
  /// Writes a tensor whose values, between -1 and 1, depend on its name.
  void write(const std::string& name, const std::vector<std::int64_t>& shape) const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(std::sin(static_cast<float>(name[0] + name.size()) + 1.7f * static_cast<float>(i)));
    tools::write_npy(file(name), {shape, values});
  }
  /// Returns " FLAG PATH" for a file in the command's folder.
  std::string option(const std::string& flag, const std::string& name) const {
    return " " + flag + " " + file(name).string();
  }

 private:
  TemporaryDirectory dir_;
};

/// CHECKs that the command fails with `text` on stderr; after wrong usage, status 2, also that stdout is empty.
inline void expect_error(const Command& command, const std::string& arguments, int status,
                         const std::string& text, const std::string& variables = {}) {
  const Result result = command.run(arguments, variables);
  CAPTURE(arguments);
  CAPTURE(result.err);
  CHECK(result.status == status);
  if (status == 2) CHECK(result.out.empty());
  CHECK(result.says(text));
}

}  // namespace fa2::test

#endif
