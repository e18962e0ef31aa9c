// Checks the contents of tables of sequences on the host, for FA2_CHECK=1 and the interpreter.
#pragma once

#include <fa2/args.h>
#include <fa2/errors.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace fa2 {

/// The sequences of queries, or of keys and values.
struct SequenceSide {
  std::string_view name = "q";                 ///< suffix of fields; "q" or "k"
  std::int64_t total = 0;                      ///< rows of all sequences; 0: batched
  std::int64_t longest = 0;                    ///< upper bound of a sequence's rows
  std::span<const std::int32_t> cu_seqlens{};  ///< (batch + 1); empty if batched
  std::span<const std::int32_t> seqused{};     ///< (batch), or empty
};

/// Returns one violation per wrong table: its first wrong entry, and how many more there are. AttentionArgs has the rules.
std::vector<Violation> violations_of(const SequenceSide& side);

/// Returns one violation per sequence whose entries name a page that does not exist: the first such entry. `used` is seqused_k, or
/// empty. entries(b, count) must return the first `count` entries of sequence b.
std::vector<Violation> violations_of_pages(
    const AttentionProblem& problem, std::span<const std::int32_t> used,
    const std::function<std::vector<std::int32_t>(std::int64_t b, std::int64_t count)>& entries);

/// Reads and checks the tables of a call, and so waits for `stream`. If `stream` captures, checks nothing and warns once. `args`
/// must be valid and `device` current. @throws InvalidRequest with everything that violations_of() finds; CudaError.
void require_sound_tables(const AttentionProblem& problem, const AttentionArgs& args, int device,
                          Stream stream);

}  // namespace fa2
