// Help that fits a terminal of 80 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace fa2::tools {

/// CLI11's layout with long lines wrapped.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
};

}  // namespace fa2::tools
