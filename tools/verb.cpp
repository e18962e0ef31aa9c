// The common parts of the command's verbs.
#include <fmt/format.h>
#include <tools/verb.h>

namespace fa2::tools {

CLI::App* add_verb(CLI::App& app, const std::string& name, const std::string& description,
                   const std::string& example, const std::string& details) {
  CLI::App* verb = app.add_subcommand(name, description);
  verb->footer((details.empty() ? "" : details + "\n\n") + "Example:\n  " + example);
  const std::string about_json = "Print one JSON document on stdout and nothing else there";
  verb->add_flag("--json", about_json);
  return verb;
}

bool wants_json(const CLI::App& verb) {
  return verb.count("--json") > 0;
}

void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace fa2::tools
