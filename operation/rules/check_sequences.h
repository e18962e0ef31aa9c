// What tables of sequences hold, checked on the host: FA2_CHECK=1, and the interpreter.
#pragma once

#include <fa2/args.h>
#include <fa2/errors.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace fa2 {

/// The sequences of one side: "q", or "k", as the names of fields end.
struct SequenceSide {
  std::string_view name = "q";
  std::int64_t total = 0;                      ///< rows of all sequences; 0: batched
  std::int64_t longest = 0;                    ///< that a sequence may be
  std::span<const std::int32_t> cu_seqlens{};  ///< (batch + 1); none where sequences are batched
  std::span<const std::int32_t> seqused{};     ///< (batch), or none
};

/// The first entry of each table that AttentionArgs does not allow, and how many more there are.
std::vector<Violation> violations_of(const SequenceSide& side);

/// The first entry of each row of a page table that names no page, among those that its sequence has. `used`:
/// seqused_k, or empty. entries(b, count): so many of sequence b, from the first on.
std::vector<Violation> violations_of_pages(
    const AttentionProblem& problem, std::span<const std::int32_t> used,
    const std::function<std::vector<std::int32_t>(std::int64_t b, std::int64_t count)>& entries);

/// Reads the tables of valid arguments of a call on `device`, which is current: waits for `stream`. Where that captures
/// nothing can be read: a warning says so once. @throws InvalidRequest with everything that violations_of() finds,
/// CudaError.
void require_sound_tables(const AttentionProblem& problem, const AttentionArgs& args, int device,
                          Stream stream);

}  // namespace fa2
