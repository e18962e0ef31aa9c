// Handles command lines and files.
#include "program.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

namespace example {

int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  constexpr int kUsage = 2;
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    return EXIT_FAILURE;
  }
}

std::ofstream opened(const std::string& path) {
  std::ofstream file(path);
  if (!file) throw std::runtime_error("cannot write " + path);
  return file;
}

void require_at_most(double limit, const char* name, double value, std::vector<std::string>& complaints) {
  if (value <= limit) return;
  char text[200];
  std::snprintf(text, sizeof text, "%s is %.4g, must be at most %.4g", name, value, limit);
  complaints.emplace_back(text);
}

int judge(const CLI::App& app, const std::vector<std::string>& complaints) {
  for (const std::string& complaint : complaints)
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), complaint.c_str());
  return complaints.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace example
