// Sequence lengths, specified in a few words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace fa2::tools {

/// `equal:2048`, `lognormal:4096` (the mean; sigma 1), `lognormal:4096:0.5`, `uniform:1:4096` (both
/// included), or a list of lengths: `100,200,0`.
class LengthSpec {
 public:
  /// @throws CLI::ValidationError that names `flag`.
  LengthSpec(const std::string& flag, const std::string& text);

  /// Returns the number of lengths in a list; nullopt if any number can be drawn.
  std::optional<std::int64_t> count() const;
  double mean() const;
  /// Returns `count` lengths, the same in every run. A list gives its own. Log-normal ones add up to count *
  /// mean.
  std::vector<std::int32_t> lengths(std::int64_t count) const;

 private:
  struct Equal {
    std::int32_t length;
  };
  struct LogNormal {
    std::int32_t mean;
    double sigma;
  };
  struct Uniform {
    std::int32_t least, most;
  };
  using List = std::vector<std::int32_t>;

  std::variant<Equal, LogNormal, Uniform, List> kind_;
};

}  // namespace fa2::tools
