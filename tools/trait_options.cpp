// Every combination of the traits that specialise a kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <generator/kernel_spec.h>
#include <generator/problem_text.h>
#include <operation/rules/validate.h>
#include <tools/trait_options.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace fa2::tools {
namespace {

template <class Enum>
std::vector<Enum> enumerators_of(const std::vector<std::string>& words) {
  std::vector<Enum> values;
  for (const std::string& word : words) values.push_back(*enumerator_of<Enum>(word));
  return values;
}

std::vector<MaskKind> masks_of(const TraitOptions& options) {
  return options.masks.empty() ? masks_of_causal(options.causal) : enumerators_of<MaskKind>(options.masks);
}

/// Returns the values for "yes", "no" or "both": with the variant, without it, or one after the other.
std::vector<bool> presences_of(const std::string& word) {
  if (word == "both") return {false, true};
  return {word == "yes"};
}

void set_presence(bool& field, bool is_there, std::int64_t) {
  field = is_there;
}
template <class Value>
void set_presence(std::optional<Value>& field, bool is_there, std::int64_t least) {
  field.reset();
  if (is_there) field = least;
}

/// Replaces each problem by one copy per value.
template <class Value, class Set>
void multiply(std::vector<AttentionProblem>& problems, const std::vector<Value>& values, const Set& set) {
  std::vector<AttentionProblem> products;
  for (const AttentionProblem& problem : problems) {
    for (const Value value : values) set(products.emplace_back(problem), value);
  }
  problems = std::move(products);
}

/// Calls variant(text, value) for each variant, with the text of its row.
template <class Variant>
void visit_variants(AttentionProblem& problem, const Variant& variant) {
  each_row<AttentionProblem>([&](const auto& row) {
    auto& value = problem.*row.member;
    if constexpr (kIsVariant<std::decay_t<decltype(value)>>) variant(row.text, value);
  });
}

/// Adds the violations that are not in `found` yet, because many problems share one.
void add_new(const std::vector<Violation>& violations, std::vector<Violation>& found) {
  for (const Violation& violation : violations) {
    const auto is_same = [&](const Violation& other) { return to_string(other) == to_string(violation); };
    if (std::ranges::none_of(found, is_same)) found.push_back(violation);
  }
}

}  // namespace

void TraitOptions::add_to(CLI::App& verb) {
  add_list(verb, "--head-dim", head_dims, "Head dimensions of Q and K");
  add_list(verb, "--head-dim-v", head_dims_v, "Head dimensions of V and O; 0: that of Q");
  add_list(verb, "--dtype", dtypes, "Element types")->check(word_check<DType>());
  auto* named =
      verb.add_option("--causal", causal, "Kernels with the bottom-right causal mask, without, both");
  named->check(causal_words())->capture_default_str();
  add_list(verb, "--mask", masks, "Masks by name, instead of --causal")
      ->check(word_check<MaskKind>())
      ->excludes(named);
  std::vector<std::string> alignments = words_of<RowAlignment>();
  alignments.emplace_back("all");
  verb.add_option(
          "--alignment", alignment,
          "For rows aligned to 16 bytes, to one element only, to 16 bytes with strides of any sign, all")
      ->check(CLI::IsMember(alignments))
      ->capture_default_str();
  visit_variants(fields, [&](const RowText& row, auto&) {
    const std::string name = row.name;
    verb.add_option(flag_of(name), variants[name] = "no", description_of(name))
        ->expected(0, 1)
        ->default_str("yes")  // of the flag alone
        ->option_text("[yes|no|both]")
        ->check(causal_words());
  });
  add_missing_traits(verb, fields);
}

void TraitOptions::take(const HfModel& model) {
  head_dims = {model.head_dim};
  head_dims_v = {model.head_dim_v};
  if (model.dtype) dtypes = {std::string(word_of(*model.dtype))};
  causal = "yes";
  masks.clear();
  variants["window_left"] = model.window;
  variants["softcap"] = model.softcap;
  variants["sinks"] = model.sinks;
  variants["attention_chunk"] = model.chunk;
  variants["values_in_keys"] = model.latents;
}

std::string TraitOptions::flags() const {
  std::string text = fmt::format("--head-dim {}", fmt::join(head_dims, ","));
  if (head_dims_v != std::vector{0}) text += fmt::format(" --head-dim-v {}", fmt::join(head_dims_v, ","));
  text += fmt::format(" --dtype {} --causal {}", fmt::join(dtypes, ","), causal);
  for (const auto& [variant, word] : variants) {
    if (word != "no") text += fmt::format(" {} {}", flag_of(variant), word);
  }
  return text;
}

std::vector<AttentionProblem> TraitOptions::problems(bool backward) const {
  std::vector<AttentionProblem> all = {fields};
  all[0].page_count = fields.page_size > 0 ? 1 : 0;  // any number, because it specialises nothing
  using P = AttentionProblem;
  multiply(all, enumerators_of<DType>(dtypes), [](P& p, DType dtype) { p.dtype = dtype; });
  multiply(all, head_dims, [](P& p, std::int32_t dim) { p.head_dim = dim; });
  multiply(all, head_dims_v, [](P& p, std::int32_t dim) { p.head_dim_v = dim; });
  multiply(all, masks_of(*this), [](P& p, MaskKind mask) { p.mask = mask; });
  for (const auto& [variant, word] : variants) {
    multiply(all, presences_of(word), [&variant = variant](P& p, bool is_there) {
      visit_variants(p, [&](const RowText& row, auto& value) {
        if (row.name == variant) set_presence(value, is_there, row.least);
      });
    });
  }
  std::vector<Violation> found;
  for (const P& problem : all) add_new(violations_of_precompiled(problem, backward), found);
  if (!found.empty()) throw CLI::ValidationError(InvalidRequest(found).what());
  return all;
}

std::vector<PlanOptions> TraitOptions::plans() const {
  std::vector<PlanOptions> plans;
  const std::vector<std::string> all = words_of<RowAlignment>(), one = {alignment};
  for (const RowAlignment rows : enumerators_of<RowAlignment>(alignment == "all" ? all : one))
    plans.push_back({rows});
  return plans;
}

}  // namespace fa2::tools
