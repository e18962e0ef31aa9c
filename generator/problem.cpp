// AttentionProblem as a value: defaults, hash, text.
#include <fa2/problem.h>
#include <fmt/format.h>

namespace fa2 {

AttentionProblem AttentionProblem::normalized() const {
  AttentionProblem full = *this;
  if (full.head_dim_v == 0) full.head_dim_v = full.head_dim;
  if (full.heads_kv == 0) full.heads_kv = full.heads_q;
  return full;
}

// In-process only: kernels on disk are named by content hashes, never by this.
std::size_t hash_value(const AttentionProblem& problem) {
  const std::uint64_t kinds = static_cast<std::uint64_t>(problem.dtype) |
                              static_cast<std::uint64_t>(problem.mask) << 8 |
                              static_cast<std::uint64_t>(problem.row_alignment) << 16;
  const std::uint64_t dims = static_cast<std::uint32_t>(problem.head_dim) |
                             static_cast<std::uint64_t>(static_cast<std::uint32_t>(problem.head_dim_v)) << 32;
  const std::uint64_t words[] = {kinds,
                                 dims,
                                 static_cast<std::uint64_t>(problem.batch),
                                 static_cast<std::uint64_t>(problem.heads_q),
                                 static_cast<std::uint64_t>(problem.heads_kv),
                                 static_cast<std::uint64_t>(problem.seqlen_q),
                                 static_cast<std::uint64_t>(problem.seqlen_k)};
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash);
}

std::string to_string(const AttentionProblem& problem) {
  const AttentionProblem p = problem.normalized();
  std::string text = fmt::format("{} d{}", to_string(p.dtype), p.head_dim);
  if (p.head_dim_v != p.head_dim) text += fmt::format(" v{}", p.head_dim_v);
  text += fmt::format(" {}", to_string(p.mask));
  if (p.row_alignment != RowAlignment::bytes16) text += fmt::format(" {}", to_string(p.row_alignment));
  text += fmt::format(" batch {} heads {}/{} seqlen {}x{}", p.batch, p.heads_q, p.heads_kv, p.seqlen_q,
                      p.seqlen_k);
  return text;
}

}  // namespace fa2
