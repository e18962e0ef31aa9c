// Texts of scores as functions of the host, in double precision: what kernels should compute.
#pragma once

#include <fa2/score_text.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace fa2::interpreter {

class LoadedObject;

/// The position of a score. `head` is a query head.
struct HostPosition {
  int batch, head, query, key, queries, keys;
};

/// Immutable, and cheap to copy.
class HostText {
 public:
  /// Compiles the texts with a number, like make_host_compiler(). `captures`: one for each of the texts', with pointers to host memory,
  /// which must outlive the copies. @throws InvalidRequest if no texts have this number; CompileError; Unavailable without a compiler.
  HostText(std::int64_t number, std::vector<ScoreCapture> captures);

  bool has_mask() const { return has_mask_; }

  /// Returns a score after bias and mod. `score`: scaled, after softcap and ALiBi.
  double modified(double score, const HostPosition& at) const {
    return modified_(captures_->data(), at, score);
  }
  /// Returns d modified() / d score; 0 where the texts hide the score.
  double slope(double score, const HostPosition& at) const { return slope_(captures_->data(), at, score); }
  /// Returns what mod_slope says of slope(); meaningless without such a text.
  double given_slope(double score, const HostPosition& at) const {
    return given_slope_(captures_->data(), at, score);
  }
  bool is_visible(const HostPosition& at) const { return mask_(captures_->data(), at); }

 private:
  using OfScore = double (*)(const ScoreCapture*, const HostPosition&, double);
  using OfPosition = bool (*)(const ScoreCapture*, const HostPosition&);

  bool has_mask_;
  std::shared_ptr<const std::vector<ScoreCapture>> captures_;
  std::shared_ptr<const LoadedObject> object_;
  OfScore modified_, slope_, given_slope_;
  OfPosition mask_;
};

}  // namespace fa2::interpreter
