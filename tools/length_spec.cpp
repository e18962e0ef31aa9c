// Parses the words of --lengths.
#include <fmt/format.h>
#include <tools/length_spec.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <random>
#include <string_view>

namespace fa2::tools {
namespace {

constexpr std::int32_t kLongest = 2147482624;  ///< like a problem's seqlen_q

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && stop == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Returns log-normal lengths of at most kLongest, scaled to add up to `total`. The first get what rounding and the
/// limit leave.
std::vector<std::int32_t> log_normal(std::int64_t count, std::int64_t total, double sigma) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> weights;
  for (std::int64_t i = 0; i < count; ++i) weights.push_back(std::exp(sigma * normal(random)));
  const double scale = static_cast<double>(total) / std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int32_t> lengths;
  for (const double weight : weights)
    lengths.push_back(static_cast<std::int32_t>(std::min<double>(weight * scale, kLongest)));
  std::int64_t left = total - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  while (left > 0) {
    const std::int64_t share = (left + count - 1) / count;
    for (std::int32_t& length : lengths) {
      const std::int64_t more = std::min({share, left, std::int64_t{kLongest} - length});
      length += static_cast<std::int32_t>(more);
      left -= more;
    }
  }
  return lengths;
}

}  // namespace

LengthSpec::LengthSpec(const std::string& flag, const std::string& text) {
  const auto fail = [&] {
    throw CLI::ValidationError(
        flag, fmt::format(
                  "\"{}\", must be one of equal:N, lognormal:MEAN, lognormal:MEAN:SIGMA, uniform:LEAST:MOST "
                  "and N,N,..., with lengths in 0..{}",
                  text, kLongest));
  };
  const auto length = [&](std::string_view word) {
    const auto number = number_of<std::int32_t>(word);
    if (!number || *number < 0 || *number > kLongest) fail();
    return number.value_or(0);
  };
  const std::vector<std::string_view> words = split(text, ':');
  if (words.size() == 1) {
    List list;
    for (const std::string_view word : split(text, ',')) list.push_back(length(word));
    kind_ = std::move(list);
  } else if (words[0] == "equal" && words.size() == 2) {
    kind_ = Equal{length(words[1])};
  } else if (words[0] == "lognormal" && words.size() <= 3) {
    const auto sigma = words.size() == 3 ? number_of<double>(words[2]) : 1;
    if (!sigma || !(*sigma >= 0 && *sigma <= 10)) fail();
    kind_ = LogNormal{length(words[1]), sigma.value_or(1)};
  } else if (words[0] == "uniform" && words.size() == 3) {
    kind_ = Uniform{length(words[1]), length(words[2])};
    if (const auto [least, most] = std::get<Uniform>(kind_); least > most) fail();
  } else {
    fail();
  }
}

std::optional<std::int64_t> LengthSpec::count() const {
  const List* list = std::get_if<List>(&kind_);
  return list == nullptr ? std::nullopt : std::optional(static_cast<std::int64_t>(list->size()));
}

double LengthSpec::mean() const {
  if (const auto* equal = std::get_if<Equal>(&kind_)) return equal->length;
  if (const auto* spread = std::get_if<LogNormal>(&kind_)) return spread->mean;
  if (const auto* range = std::get_if<Uniform>(&kind_))
    return (double(range->least) + double(range->most)) / 2;
  const List& list = std::get<List>(kind_);
  return std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size());
}

std::vector<std::int32_t> LengthSpec::lengths(std::int64_t count) const {
  if (const List* list = std::get_if<List>(&kind_)) return *list;
  if (const auto* spread = std::get_if<LogNormal>(&kind_))
    return log_normal(count, count * spread->mean, spread->sigma);
  std::vector<std::int32_t> all(static_cast<std::size_t>(count));
  if (const auto* equal = std::get_if<Equal>(&kind_)) std::ranges::fill(all, equal->length);
  if (const auto* range = std::get_if<Uniform>(&kind_)) {
    std::mt19937 random(1);
    std::uniform_int_distribution<std::int32_t> uniform(range->least, range->most);
    std::ranges::generate(all, [&] { return uniform(random); });
  }
  return all;
}

}  // namespace fa2::tools
