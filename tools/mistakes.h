// All mistakes of a command line in one message.
#pragma once

#include <fa2/errors.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <string>
#include <vector>

namespace fa2::tools {

/// Collects mistakes, so that one message lists all of them.
class Mistakes {
 public:
  /// Runs `step`. Notes the CLI::ParseError or fa2::Error that it throws.
  template <class Step>
  void attempt(const Step& step) {
    try {
      step();
    } catch (const CLI::ParseError& error) {
      is_usage_ = true;
      note(error.what());
    } catch (const Error& error) {
      note(error.what());
    }
  }

  bool any() const { return !texts_.empty(); }

  /// @throws The mistake, if there is one. Of several, one exception lists all: CLI::ValidationError if a flag
  /// is among them, else Error.
  void require_none() const;

 private:
  void note(const std::string& text);

  std::vector<std::string> texts_;
  std::exception_ptr first_;
  bool is_usage_ = false;
};

/// Notes everything that is wrong with the flags of `verb`: CLI11 stops at the first mistake.
void note_flags(CLI::App& verb, Mistakes& mistakes);

}  // namespace fa2::tools
