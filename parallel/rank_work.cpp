// One sequence per document with queries on the rank or, where results depend on the number of a sequence, per document.
#include <fmt/format.h>
#include <parallel/rank_work.h>

#include <algorithm>
#include <utility>

namespace fa2 {
namespace {

constexpr std::int64_t kDropoutUnit = 16;  // of positions, if there is dropout (AttentionArgs::query_pieces)

bool numbers_keys(const AttentionProblem& p) {
  return p.dropout || p.score_text != 0;
}

/// Returns whether the last query stands at the last key, as in a problem without pieces.
bool is_bottom_right(const LocalSequence& s) {
  return s.split == s.queries.size() && s.first == s.keys.size() - s.queries.size();
}

void check_slices(const IntervalPlan& plan, const StreamMask& mask, RequestCheck& found) {
  for (std::size_t rank = 0; rank < plan.held.size(); ++rank) {
    const RowsOfSlices& held = plan.held[rank];
    for (const Slice& slice : held.slices()) {
      for (const Slice& part : mask.by_document(slice)) {
        const Slice document = mask.document_of(part.begin);
        const std::size_t count = held.within(document).size();
        if (count > 2 && held.within(document).front() == part)
          found.add(fmt::format("layout.ranks[{}]", rank),
                    fmt::format("{} slices of [{}, {})", count, document.begin, document.end),
                    "must be at most 2: kernels take two pieces of a document or chunk");
      }
    }
  }
}

void check_dropout(const IntervalPlan& plan, const StreamMask& mask, RequestCheck& found) {
  const auto is_multiple = [](std::int64_t n) { return n % kDropoutUnit == 0; };
  for (int rank = 0; rank < static_cast<int>(plan.held.size()); ++rank) {
    for (const LocalSequence& s : local_sequences(plan, mask, rank)) {
      const bool has_second = s.split != s.queries.size();
      if (is_multiple(s.first) && (!has_second || (is_multiple(s.split) && is_multiple(s.second)))) continue;
      found.add(fmt::format("layout.ranks[{}]", rank),
                fmt::format("split {}, first {}, second {}", s.split, s.first, s.second),
                "must be multiples of 16, because there is dropout: make the layout with a granule of 16");
      break;
    }
  }
}

/// Returns a sequence for each document, also for those without queries on the rank.
std::vector<LocalSequence> one_per_document(const std::vector<LocalSequence>& sequences,
                                            const std::vector<std::int64_t>& cu_seqlens,
                                            const RowsOfSlices& held) {
  std::vector<LocalSequence> all;
  auto next = sequences.begin();
  Slice queries, keys;
  for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    if (held.within({cu_seqlens[i], cu_seqlens[i + 1]}).empty()) {
      all.push_back({{queries.end, queries.end}, {keys.end, keys.end}});
    } else {
      all.push_back(*next++);
    }
    queries = all.back().queries, keys = all.back().keys;
  }
  return all;
}

void pack(AttentionProblem& p, const std::vector<LocalSequence>& sequences, std::int64_t queries,
          std::int64_t keys) {
  const auto longest = [&](Slice LocalSequence::*rows) {
    std::int64_t most = 0;
    for (const LocalSequence& s : sequences) most = std::max(most, (s.*rows).size());
    return most;
  };
  p.varlen = true;
  p.batch = static_cast<std::int64_t>(sequences.size());
  p.seqlen_q = longest(&LocalSequence::queries);
  p.seqlen_k = longest(&LocalSequence::keys);
  p.total_q = queries;
  p.total_k = keys;
}

}  // namespace

bool has_diagonal(const AttentionProblem& p) {
  return p.mask != MaskKind::none || p.window_left || p.window_right || p.attention_chunk || p.alibi ||
         numbers_keys(p);
}

AttentionProblem exchanged_problem(const AttentionProblem& problem) {
  AttentionProblem p = problem;
  const bool is_one_launch = p.varlen || p.batch == 1;
  if (numbers_keys(p)) p.window_left.reset();
  if (numbers_keys(p) || !is_one_launch) p.attention_chunk.reset();
  if (p.score_text != 0) p.mask = MaskKind::none, p.window_right.reset();  // texts may read lengths
  return p;
}

std::string why_one_group(const AttentionProblem& p, const Gradients& gradients) {
  if (p.dropout) return "dropout depends on the numbers of heads and batch entries";
  if (p.score_text != 0) return "texts of scores may read the numbers of heads and batch entries";
  if (gradients.d_sinks && p.batch > 1 && !p.varlen) return "dSinks are summed over the batch";
  return {};
}

QueryPieces RankWork::pieces() const {
  if (!problem.query_pieces || is_empty()) return {};
  const LocalSequence& s = sequences.front();
  return {.split = s.split, .first = s.first, .second = s.second};
}

AttentionProblem RankWork::problem_of(const HeadGroup& group) const {
  AttentionProblem p = problem;
  const std::int64_t queries_per_kv = p.heads_q / p.heads_kv;
  p.heads_kv = group.heads.size();
  p.heads_q = p.heads_kv * queries_per_kv;
  if (!is_packed()) p.batch = group.entries.size();
  return p;
}

RankWork rank_work(const AttentionProblem& problem, const std::vector<std::int64_t>& cu_seqlens,
                   const IntervalPlan& plan, const StreamMask& mask, int rank, RequestCheck& found) {
  check_slices(plan, mask, found);
  if (found.empty() && problem.dropout) check_dropout(plan, mask, found);
  if (!found.empty()) return {};
  const RowsOfSlices &held = plan.held.at(rank), &needed = plan.needed.at(rank);
  std::vector<LocalSequence> sequences = local_sequences(plan, mask, rank);
  if (numbers_keys(problem) && !cu_seqlens.empty() && !sequences.empty())
    sequences = one_per_document(sequences, cu_seqlens, held);
  return work_of(problem, std::move(sequences), held.count(), needed.count());
}

RankWork work_of(const AttentionProblem& problem, std::vector<LocalSequence> sequences, std::int64_t queries,
                 std::int64_t keys) {
  RankWork work{problem, std::move(sequences)};
  AttentionProblem& p = work.problem;
  if (exchanged_problem(problem).attention_chunk) p.attention_chunk.reset();
  if (p.mask != MaskKind::none) p.mask = MaskKind::causal_bottom_right;
  // Without a second piece its numbers are unused, but must not be less than the first one's.
  for (LocalSequence& s : work.sequences)
    if (s.split == s.queries.size()) s.second = s.first;
  p.query_pieces = has_diagonal(p) && (numbers_keys(p) || p.attention_chunk ||
                                       !std::ranges::all_of(work.sequences, is_bottom_right));
  if (problem.varlen || work.sequences.size() > 1) {
    pack(p, work.sequences, queries, keys);
  } else {
    p.seqlen_q = queries;
    p.seqlen_k = keys;
  }
  return work;
}

AttentionProblem shard_problem(const AttentionProblem& problem, std::int64_t tokens) {
  AttentionProblem p = problem;
  p.seqlen_q = p.seqlen_k = tokens;
  if (p.varlen) p.batch = 1;
  p.varlen = false;
  p.total_q = p.total_k = 0;
  return p;
}

}  // namespace fa2
