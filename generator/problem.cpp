// AttentionProblem as a value: defaults and hash. Everything but the defaults follows from AttentionProblem::visit.
#include <fa2/problem.h>

#include <optional>

namespace fa2 {
namespace {

template <class Value>
std::uint64_t bits_of(const Value& value) {
  return static_cast<std::uint64_t>(value);
}

template <class Value>
std::uint64_t bits_of(const std::optional<Value>& value) {
  return value ? bits_of(*value) + 1 : 0;
}

}  // namespace

AttentionProblem AttentionProblem::normalized() const {
  AttentionProblem full = *this;
  if (full.head_dim_v == 0) full.head_dim_v = full.head_dim;
  if (full.heads_kv == 0) full.heads_kv = full.heads_q;
  if (full.mask != MaskKind::none) full.window_right.reset();
  return full;
}

// Only for this process: content hashes name kernels on disk. The products do not wait for each other; one mixing of their sum
// follows.
std::size_t hash_value(const AttentionProblem& problem) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  std::uint64_t hash = 0, factor = 1;
  AttentionProblem::visit(
      [&](const char*, FieldRole, const auto& value) {
        factor *= kOdd;
        hash += bits_of(value) * factor;
      },
      problem);
  hash = (hash ^ hash >> 32) * kOdd;
  return static_cast<std::size_t>(hash ^ hash >> 32);
}

}  // namespace fa2
