// Variants of a problem that is read from files.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <tools/npy.h>
#include <tools/variant_options.h>

#include <algorithm>

namespace fa2::tools {

void VariantOptions::add_to(CLI::App& verb) {
  verb.add_option("--window-left", window_left, "Sliding window: keys before its own that a query sees");
  verb.add_option("--window-right", window_right, "Keys after its own that a query sees");
  verb.add_option("--softcap", softcap, "Scores become softcap * tanh(score / softcap)");
  verb.add_option("--alibi", alibi, "ALiBi slopes: float32 (heads) or (batch, heads)");
  verb.add_option("--sinks", sinks, "Attention sinks: a logit a head, float32 (heads)");
}

VariantInputs::VariantInputs(const VariantOptions& options, AttentionProblem& problem)
    : softcap_(options.softcap.value_or(0)),
      slopes_(read(options.alibi, {{problem.heads_q}, {problem.batch, problem.heads_q}})),
      sinks_(read(options.sinks, {{problem.heads_q}})),
      slopes_per_batch_(static_cast<std::int64_t>(slopes_.values.size()) > problem.heads_q) {
  problem.window_left = options.window_left;
  problem.window_right = options.window_right;
  problem.softcap = options.softcap.has_value();
  problem.alibi = !options.alibi.empty();
  problem.sinks = !options.sinks.empty();
}

VariantInputs::Numbers VariantInputs::read(const std::string& path,
                                           const std::vector<std::vector<std::int64_t>>& shapes) {
  if (path.empty()) return {};
  NpyArray array = read_npy(path, {1, shapes.back().size()});
  std::vector<std::string> expected;
  for (const auto& shape : shapes) expected.push_back(shape_text(shape));
  if (std::ranges::find(shapes, array.shape) == shapes.end()) {
    throw Error(
        ErrorCode::invalid_problem,
        fmt::format("{}: shape {}, must be {}", path, shape_text(array.shape), fmt::join(expected, " or ")));
  }
  if (array.is_float16())
    throw Error(ErrorCode::invalid_problem, fmt::format("{}: float16, must be float32", path));
  Numbers numbers{std::get<1>(std::move(array.values))};
  const std::size_t bytes = numbers.values.size() * sizeof numbers.values[0];
  numbers.on_device = DeviceBuffer(bytes);
  numbers.on_device.upload(numbers.values.data(), bytes);
  return numbers;
}

void VariantInputs::add_to(AttentionArgs& args) const {
  args.softcap = softcap_;
  args.alibi_slopes = static_cast<const float*>(slopes_.on_device.data());
  args.alibi_slopes_per_batch = slopes_per_batch_;
  args.sinks = static_cast<const float*>(sinks_.on_device.data());
}

void VariantInputs::add_to(reference::ScoreRule& rule) const {
  rule.softcap = double{softcap_};
  rule.alibi_slopes = slopes_.values;
  rule.sinks = sinks_.values;
}

}  // namespace fa2::tools
