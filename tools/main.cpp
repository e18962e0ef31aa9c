// The fa2 command: parses, runs one verb, and turns errors into messages and exit statuses.
#include <core/text.h>
#include <fa2/attention.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tools/help.h>
#include <tools/mistakes.h>
#include <tools/verb.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string_view>

namespace {

using namespace fa2::tools;

constexpr std::size_t kMostMessage = 4096;  // for messages that quote the command line

int fail(const CLI::App& verb, const std::string& message) {
  if (wants_json(verb)) print_json({{"error", message}});
  fmt::print(stderr, "fa2 {}: {}\n", verb.get_name(), message);
  return kFailed;
}

int run(const Verb& verb) {
  try {
    Mistakes mistakes;
    if (verb.check) verb.check(mistakes);
    mistakes.require_none();
    return verb.run();
  } catch (const CLI::ParseError&) {
    throw;
  } catch (const fa2::CompileError& error) {
    return fail(*verb.app,
                error.log().empty() ? error.what() : fmt::format("{}\n{}", error.what(), error.log()));
  } catch (const std::bad_alloc&) {
    return fail(*verb.app, "out of memory");
  } catch (const std::exception& error) {
    return fail(*verb.app, error.what());
  }
}

/// Returns the status, or a failure if stdout cannot be flushed: a full disk, or a closed pipe.
int flushed(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::perror("fa2: stdout");
  return kFailed;
}

/// Returns whether the first word names a verb. CLI11 judges a word that begins with '-'.
bool is_verb(std::string_view word, std::span<const Verb> verbs) {
  return word.empty() || word.front() == '-' ||
         std::ranges::any_of(verbs, [&](const Verb& verb) { return verb.app->get_name() == word; });
}

/// Parses the command line. @throws CLI::ParseError listing every mistake.
void parse(CLI::App& app, std::span<const Verb> verbs, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) throw;  // help or version
    Mistakes mistakes;
    mistakes.attempt([&] { throw error; });
    for (const Verb& verb : verbs) {
      if (!verb.app->parsed()) continue;
      note_flags(*verb.app, mistakes);
      if (verb.check) verb.check(mistakes);
    }
    mistakes.require_none();
  }
}

int refuse_verb(std::string_view word, std::span<const Verb> verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.app->get_name());
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view meant = fa2::nearest(word, views);
  fmt::print(stderr, "fa2: there is no verb {}{} There are {}; fa2 --help says what each does.\n",
             fa2::in_quotes(word), meant.empty() ? "." : fmt::format("; did you mean {}?", meant),
             fmt::join(names, ", "));
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Attention kernels rendered, compiled, cached and tuned at run time.", "fa2");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", fa2::version());
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* from, const CLI::Error& error) {
    return fa2::printable(CLI::FailureMessage::simple(from, error), kMostMessage);
  });
  app.footer("Example:\n  fa2 info\nfa2 VERB --help shows the options of a verb and an example.");
  const Verb verbs[] = {add_info(app),  add_run(app),  add_bench(app),   add_tune(app), add_precompile(app),
                        add_cache(app), add_pack(app), add_explain(app), add_dump(app)};
  if (argc > 1 && !is_verb(argv[1], verbs)) return refuse_verb(argv[1], verbs);
  try {
    parse(app, verbs, argc, argv);
    for (const Verb& verb : verbs) {
      if (verb.app->parsed()) return flushed(run(verb));
    }
    return kUsage;
  } catch (const CLI::ParseError& error) {
    return flushed(app.exit(error) == 0 ? kOk : kUsage);
  }
}
