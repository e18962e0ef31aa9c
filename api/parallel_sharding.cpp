#include <api/parallel_sharding.h>
#include <fmt/format.h>
#include <parallel/element_sizes.h>
#include <parallel/gather_engine.h>
#include <parallel/group_sizes.h>
#include <parallel/head_engine.h>
#include <parallel/key_value_rows.h>
#include <parallel/staged_engine.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

using Scheme = ContextParallelScheme;

/// The keys that ranks need, by the mask of what they exchange.
struct Needs {
  StreamMask mask;
  IntervalPlan intervals;

  explicit Needs(const ParallelRequest& request)
      : mask(exchanged_problem(request.problem), request.cu_seqlens),
        intervals(plan_intervals(request.layout, mask)) {}

  bool none() const { return intervals.transfers.empty(); }
};

/// A sharding, and the bytes of all ranks' forwards that no kernel hides: those of the first group.
struct Choice {
  Sharding sharding;
  std::int64_t exposed_bytes = 0;
};

/// Returns what all schemes explain alike.
ContextParallelExplanation explanation_of(const ParallelRequest& request, Scheme scheme, std::string reason,
                                          std::size_t groups) {
  ContextParallelExplanation e;
  e.scheme = scheme;
  e.reason = std::move(reason);
  e.rank = request.communicator.rank(), e.ranks = request.communicator.size();
  e.groups = static_cast<int>(groups);
  if (request.options.gradients) e.backward_groups = e.groups;
  e.tokens = request.layout.tokens_of(e.rank);
  e.sent_bytes.assign(e.ranks, 0), e.received_bytes.assign(e.ranks, 0);
  const StreamMask visible(request.problem, request.cu_seqlens);
  for (const Slice& slice : request.layout.ranks[e.rank]) e.pairs += visible.pairs(slice);
  return e;
}

std::string because(const ParallelRequest& request, const char* reason) {
  return request.options.scheme == Scheme::automatic ? reason : "asked for";
}

/// Returns the bytes of a key and its value in all entries and heads.
std::int64_t bytes_per_key(const ParallelRequest& request) {
  return request.entries() * key_value_elements(request.problem) * kElementBytes;
}

/// Sets the keys of the rank, and adds the bytes that they take between ranks. Returns those of all ranks.
std::int64_t add_key_bytes(ContextParallelExplanation& e, const ParallelRequest& request,
                           const IntervalPlan& intervals) {
  std::int64_t all = 0;
  e.needed_keys = intervals.needed[e.rank].count();
  for (const KeyTransfer& part : intervals.transfers) {
    const std::int64_t bytes = part.keys.size() * bytes_per_key(request);
    if (part.from == e.rank) e.sent_bytes[part.to] += bytes;
    if (part.to == e.rank) e.received_bytes[part.from] += bytes;
    all += bytes;
  }
  return all;
}

/// How many groups gather keys.
struct GroupCounts {
  int forward = 1, backward = 1;
};

GroupCounts groups_of_gather(const ParallelRequest& request, const IntervalPlan& intervals,
                             std::string& reason) {
  const std::string why = why_one_group(request.problem, request.gradients);
  if (!why.empty()) {
    reason += "; one group, because " + why;
    return {};
  }
  if (const int groups = request.options.groups; groups > 0) return {groups, groups};
  std::int64_t most = 0;
  for (const RowsOfSlices& held : intervals.held) most = std::max(most, held.count());
  std::vector<std::int64_t> arriving(intervals.held.size());  // keys, by rank
  for (const KeyTransfer& part : intervals.transfers) arriving[part.to] += part.keys.size();
  const std::int64_t bytes = *std::ranges::max_element(arriving) * bytes_per_key(request);
  const int sms = request.gpu.sm_count;
  return {forward_group_count(request.problem, most, bytes, sms),
          group_count(request.problem, most, bytes, sms)};
}

Choice gather_choice(const ParallelRequest& request, const Needs& needs, RequestCheck& found) {
  const AttentionProblem& p = request.problem;
  const int rank = request.communicator.rank();
  GatherWork work;
  work.is_local = needs.none() && request.options.scheme != Scheme::gather_heads;
  std::string reason = work.is_local
                           ? "no query sees a key of another rank"
                           : because(request, "each head is computed at once, and nothing is merged");
  work.work = rank_work(p, request.cu_seqlens, needs.intervals, needs.mask, rank, found);
  if (!found.empty()) return {};
  const GroupCounts counts =
      work.is_local ? GroupCounts{} : groups_of_gather(request, needs.intervals, reason);
  const std::int64_t units = group_units(p);
  const auto groups = [&](const std::vector<std::int64_t>& sizes) {
    return head_groups(request.entries(), p.heads_kv, sizes);
  };
  const std::vector<std::int64_t> sizes = forward_sizes(units, counts.forward);
  work.gather = plan_gather(needs.intervals, rank, groups(sizes), groups(equal_sizes(units, counts.backward)),
                            request.gradients.dk);
  work.shard = shard_problem(p, needs.intervals.held[rank].count());
  work.gradients = request.gradients;
  work.alignment = request.options.plan.row_alignment;

  Choice made;
  ContextParallelExplanation& e = made.sharding.explanation;
  e = explanation_of(request, work.is_local ? Scheme::local : Scheme::gather_heads, std::move(reason),
                     work.gather.forward.groups.size());
  if (request.options.gradients) e.backward_groups = static_cast<int>(work.gather.backward.groups.size());
  made.exposed_bytes = add_key_bytes(e, request, needs.intervals) * sizes.front() / units;
  made.sharding.make_engine = [work](MessageCarrier& carrier, const PlanMaker& make) {
    return std::make_unique<GatherEngine>(work, carrier, make);
  };
  return made;
}

/// Returns why ranks cannot attend to keys in stages; empty if they can.
std::string why_no_stages(const AttentionProblem& p) {
  if (p.dropout) return "dropout depends on the numbers of keys";
  if (p.score_text != 0) return "texts of scores may read the numbers of keys";
  if (p.attention_chunk && !exchanged_problem(p).attention_chunk)
    return "chunks of several batch entries count from their first key";
  return {};
}

Sharding staged_sharding(const ParallelRequest& request, const Needs& needs, RequestCheck& found) {
  const AttentionProblem& p = request.problem;
  const int rank = request.communicator.rank();
  const std::int64_t tokens = needs.intervals.held[rank].count();
  if (const std::string why = why_no_stages(p); !why.empty())
    found.add("scheme", "staged", "must not be staged: " + why);
  const RankWork whole = rank_work(p, request.cu_seqlens, needs.intervals, needs.mask, rank, found);
  if (!found.empty()) return {};
  StagedWork work{.shard = shard_problem(p, tokens),
                  .keys = plan_key_stages(whole.problem, needs.intervals, needs.mask, rank),
                  .works = {},
                  .gradients = request.gradients,
                  .alignment = request.options.plan.row_alignment};
  for (const KeyStage& stage : work.keys.stages)
    work.works.push_back(work_of(p, stage.sequences, tokens, stage.rows));
  Sharding made;
  made.explanation = explanation_of(request, Scheme::staged, "asked for", work.keys.stages.size());
  add_key_bytes(made.explanation, request, needs.intervals);
  made.make_engine = [work = std::move(work)](MessageCarrier& carrier, const PlanMaker& make) {
    return std::make_unique<StagedEngine>(work, carrier, make);
  };
  return made;
}

/// Returns why ranks cannot have some heads each; empty if they can.
std::string why_no_heads(const ParallelRequest& request) {
  const AttentionProblem& p = request.problem;
  if (p.heads_kv < request.communicator.size())
    return fmt::format("there are {} key/value heads for {} ranks", p.heads_kv, request.communicator.size());
  if (std::max(p.head_dim, p.head_dim_v) > kMostCopiedColumns) return "rows have more than 512 columns";
  if (p.float32_out) return "O travels in 16 bits";
  return why_one_group(p, kNoGradients);
}

int groups_of_heads(const ParallelRequest& request, std::int64_t tokens) {
  if (request.options.groups > 0) return request.options.groups;
  const int ranks = request.communicator.size();
  AttentionProblem share = request.problem;
  share.varlen = false, share.batch = 1;
  share.heads_q /= ranks, share.heads_kv /= ranks;
  const std::int64_t rows = request.entries() * tokens;
  const std::int64_t row_bytes =
      (share.heads_q + share.heads_kv) * (share.head_dim + share.head_dim_v) * kElementBytes;
  return group_count(share, rows, rows / ranks * (ranks - 1) * row_bytes, request.gpu.sm_count);
}

Choice head_choice(const ParallelRequest& request, const Needs& needs, std::string reason) {
  const int rank = request.communicator.rank(), ranks = request.communicator.size();
  HeadWork work{request.problem,      request.cu_seqlens,
                needs.intervals.held, {},
                request.gradients,    request.options.plan.row_alignment};
  work.shares = head_shares(request.problem.heads_kv, ranks, groups_of_heads(request, work.tokens()));

  Choice made;
  ContextParallelExplanation& e = made.sharding.explanation;
  e = explanation_of(request, Scheme::all_to_all, std::move(reason), work.shares.size());
  e.needed_keys = work.tokens();
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const std::int64_t bytes = bytes_between(work, from, to);
      if (from == rank) e.sent_bytes[to] = bytes;
      if (to == rank) e.received_bytes[from] = bytes;
      made.exposed_bytes += bytes;
    }
  }
  made.exposed_bytes /= e.groups;
  made.sharding.make_engine = [work](MessageCarrier& carrier, const PlanMaker& make) {
    return std::make_unique<HeadEngine>(work, carrier, make);
  };
  return made;
}

Choice best_choice(const ParallelRequest& request, const Needs& needs, RequestCheck& found) {
  RequestCheck of_gather;
  Choice gather = gather_choice(request, needs, of_gather);
  const bool can_share_heads = why_no_heads(request).empty();
  const bool divides = request.problem.heads_kv % request.communicator.size() == 0;
  if (can_share_heads && !of_gather.empty())
    return head_choice(request, needs, "the layout has too many slices to gather keys for");
  if (can_share_heads && divides && !needs.none()) {
    Choice heads =
        head_choice(request, needs, "fewer bytes are sent before the first kernel than by gather_heads");
    if (heads.exposed_bytes < gather.exposed_bytes) return heads;
  }
  found.add(of_gather.take());
  return gather;
}

}  // namespace

Sharding sharding_of(const ParallelRequest& request, RequestCheck& found) try {
  const Needs needs(request);
  const Scheme asked = request.options.scheme;
  if (asked == Scheme::automatic) return best_choice(request, needs, found).sharding;
  if (asked == Scheme::local && !needs.none())
    found.add("scheme", "local", "must not be local: queries see keys of other ranks");
  if (asked == Scheme::staged) return staged_sharding(request, needs, found);
  if (asked != Scheme::all_to_all) return gather_choice(request, needs, found).sharding;
  if (const std::string why = why_no_heads(request); !why.empty()) {
    found.add("scheme", "all_to_all", "must not be all_to_all: " + why);
    return {};
  }
  return head_choice(request, needs, "asked for").sharding;
} catch (const InvalidRequest& error) {
  found.add(error.violations());
  return {};
}

}  // namespace fa2
