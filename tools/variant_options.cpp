// Variants of a problem that is read from files. Everything follows from visit_numbers().
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/kernel_spec.h>
#include <generator/problem_text.h>
#include <operation/operands/operands.h>
#include <tools/npy.h>
#include <tools/problem_options.h>
#include <tools/variant_options.h>

#include <type_traits>
#include <utility>

namespace fa2::tools {
namespace {

/// Returns the name of a number's option: the variant's, or the number's own if a field that is no flag needs it.
std::string option_of(std::string_view field, const char* number) {
  for (const Member& member : kCStruct<AttentionProblem>.members)
    if (member.text.name == field && member.is_flag) return std::string(field);
  return number;
}

/// Calls scalar(option, value) or of_heads(option, value, per_batch...) for each number in `args`.
template <class Scalar, class OfHeads>
void visit_kinds(AttentionArgs& args, const Scalar& scalar, const OfHeads& of_heads) {
  visit_numbers(
      [&](const char* variant, const char* name, bool, auto& value, auto&... per_batch) {
        if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(value)>>) {
          of_heads(option_of(variant, name), value, per_batch...);
        } else {
          scalar(option_of(variant, name), value);
        }
      },
      AttentionProblem{}, args);
}

/// Returns how many heads have a number each.
std::int64_t heads_of(const std::string& option, const AttentionProblem& problem) {
  const Operands operands = operands_of(problem, {});
  for (std::size_t i = 0; i < kForwardTensors; ++i) {
    const RowText& text = kAttentionTable.tensors[i].text;
    if (has_numbers(static_cast<Role>(i)) && option_of(text.used_if, text.name) == option)
      return operands.list[i].extents[1];
  }
  return problem.heads_q;
}

}  // namespace

void VariantOptions::add_to(CLI::App& verb) {
  AttentionArgs args;
  visit_kinds(
      args,
      [&](const std::string& variant, float&) {
        const auto set = [this, variant](float value) { scalars[variant] = value; };
        verb.add_option_function<float>(flag_of(variant), set, description_of(variant));
      },
      [&](const std::string& variant, const float*&, auto&... per_batch) {
        const auto set = [this, variant](const std::string& path) { files[variant] = path; };
        const char* const others = sizeof...(per_batch) == 0 ? "" : " or (batch, heads)";
        verb.add_option_function<std::string>(
            flag_of(variant), set,
            fmt::format("{}: a .npy file, float32 (heads){}", description_of(variant), others));
      });
  const auto drop = [this] { return &(dropout ? *dropout : dropout.emplace()); };
  CLI::Option* const probability = verb.add_option_function<float>(
      "--dropout", [drop](float value) { drop()->probability = value; },
      description_of("dropout") + ": with this probability");
  const auto add_number = [&](const char* flag, std::uint64_t Dropout::*number, const char* description) {
    verb.add_option_function<std::uint64_t>(
            flag, [drop, number](std::uint64_t value) { drop()->*number = value; }, description)
        ->needs(probability)
        ->check(CLI::NonNegativeNumber);
  };
  add_number("--seed", &Dropout::seed, "Seed of dropout");
  add_number("--offset", &Dropout::offset, "Offset of dropout: each one gives another mask");
  verb.add_option_function<std::vector<std::int64_t>>(
          "--query-pieces",
          [this](const std::vector<std::int64_t>& numbers) {
            query_pieces = QueryPieces{.split = numbers[0], .first = numbers[1], .second = numbers[2]};
          },
          description_of("query_pieces") +
              ": query i has the position i + FIRST if i < SPLIT, else i + SECOND")
      ->type_name("SPLIT FIRST SECOND")
      ->expected(3);
  add_variants(verb, fields);
  captures = add_score_texts(verb, fields.score_text, CaptureValues::required);
}

VariantInputs::VariantInputs(const VariantOptions& options, AttentionProblem& problem, Mistakes& mistakes)
    : scalars_(options.scalars),
      dropout_(options.dropout.value_or(Dropout{})),
      query_pieces_(options.query_pieces.value_or(QueryPieces{})),
      captures_(options.captures) {
  AttentionProblem::visit(
      [&](const char* name, FieldRole, auto& value, const auto& given) {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>)
          value |= given || options.scalars.count(name) + options.files.count(name) > 0;
        else if constexpr (kIsVariant<Value> || kIsChoice<Value>)
          value = given;
      },
      problem, options.fields);
  problem.sm_margin = options.fields.sm_margin;
  problem.score_text = options.fields.score_text;
  problem.dropout |= options.dropout.has_value();
  problem.query_pieces |= options.query_pieces.has_value();
  mistakes.attempt([&] { captures_.require_sizes(problem); });
  AttentionArgs args;
  visit_kinds(
      args, [](const std::string&, float&) {},
      [&](const std::string& variant, const float*&, auto&... per_batch) {
        const auto file = options.files.find(variant);
        if (file == options.files.end()) return;
        mistakes.attempt([&] { of_heads_.emplace(variant, read(*file, problem, sizeof...(per_batch) > 0)); });
      });
}

VariantInputs::HeadNumbers VariantInputs::read(const File& file, const AttentionProblem& problem,
                                               bool may_be_per_batch) {
  using Shape = std::vector<std::int64_t>;
  const auto& [option, path] = file;
  const std::int64_t heads = heads_of(option, problem);
  const Shape per_head = {heads}, per_batch = {problem.batch, heads};
  NpyArray array = read_npy(path, {1, may_be_per_batch ? per_batch.size() : 1});
  if (array.shape != per_head && array.shape != per_batch) {
    throw Error(ErrorCode::invalid_request,
                fmt::format("{}: shape = {}, must be {}{}", path, shape_text(array.shape),
                            shape_text(per_head), may_be_per_batch ? " or " + shape_text(per_batch) : ""));
  }
  if (array.is_float16())
    throw Error(ErrorCode::invalid_request, fmt::format("{}: dtype = float16, must be float32", path));
  HeadNumbers numbers{.values = std::get<std::vector<float>>(std::move(array.values)),
                      .per_batch = array.shape == per_batch};
  const std::size_t bytes = numbers.values.size() * sizeof numbers.values[0];
  numbers.on_device = DeviceBuffer(bytes);
  numbers.on_device.upload(numbers.values.data(), bytes);
  return numbers;
}

void VariantInputs::add_to(AttentionArgs& args) const {
  args.dropout = dropout_;
  args.query_pieces = query_pieces_;
  captures_.add_to(args);
  visit_kinds(
      args,
      [&](const std::string& variant, float& value) {
        if (const auto given = scalars_.find(variant); given != scalars_.end()) value = given->second;
      },
      [&](const std::string& variant, const float*& value, auto&... per_batch) {
        const auto given = of_heads_.find(variant);
        if (given == of_heads_.end()) return;
        value = static_cast<const float*>(given->second.on_device.data());
        ((per_batch = given->second.per_batch), ...);
      });
}

void VariantInputs::add_to(reference::ScoreRule& rule) const {
  add_to(rule.numbers);
  visit_kinds(
      rule.numbers, [](const std::string&, float&) {},
      [&](const std::string& variant, const float*& value, auto&...) {
        if (value != nullptr) value = of_heads_.at(variant).values.data();
      });
}

}  // namespace fa2::tools
