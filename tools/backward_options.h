// The flags that ask a verb for the backward.
#pragma once

#include <fa2/backward.h>

#include <CLI/CLI.hpp>
#include <string>

namespace fa2::tools {

/// `--backward --determinism fastest|bitwise`.
struct BackwardOptions {
  bool wanted = false;
  Gradients gradients;  ///< all gradients

  /// Returns the option of `--backward`.
  CLI::Option* add_to(CLI::App& verb, const std::string& description);
};

}  // namespace fa2::tools
