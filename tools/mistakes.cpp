// Repeats CLI11's checks option by option.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tools/mistakes.h>

#include <algorithm>

namespace fa2::tools {

void Mistakes::note(const std::string& text) {
  if (!first_) first_ = std::current_exception();
  if (std::ranges::find(texts_, text) == texts_.end()) texts_.push_back(text);
}

void Mistakes::require_none() const {
  if (texts_.size() == 1) std::rethrow_exception(first_);
  if (texts_.empty()) return;
  const std::string text = fmt::format("{} mistakes:\n{}", texts_.size(), fmt::join(texts_, "\n"));
  if (is_usage_) throw CLI::ValidationError(text);
  throw Error(ErrorCode::invalid_request, text);
}

void note_flags(CLI::App& verb, Mistakes& mistakes) {
  const std::vector<CLI::Option*> options = verb.get_options();
  for (auto option = options.begin(); option != options.end(); ++option) {
    const std::string name = (*option)->get_name();
    if ((*option)->count() == 0) {
      if ((*option)->get_required()) mistakes.attempt([&] { throw CLI::RequiredError(name); });
      continue;
    }
    mistakes.attempt([&] { (*option)->run_callback(); });
    for (const CLI::Option* needed : (*option)->get_needs()) {
      if (needed->count() == 0) mistakes.attempt([&] { throw CLI::RequiresError(name, needed->get_name()); });
    }
    const std::set<CLI::Option*> excluded = (*option)->get_excludes();
    std::for_each(option + 1, options.end(), [&](CLI::Option* later) {  // both exclude each other
      if (later->count() > 0 && excluded.count(later) > 0)
        mistakes.attempt([&] { throw CLI::ExcludesError(name, later->get_name()); });
    });
  }
  if (verb.remaining_size() > 0)
    mistakes.attempt([&] { throw CLI::ExtrasError(verb.get_name(), verb.remaining()); });
}

}  // namespace fa2::tools
