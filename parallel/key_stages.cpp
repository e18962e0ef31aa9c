// Ranges of keys that a rank needs of another, dealt to stages.
#include <parallel/key_stages.h>
#include <parallel/rank_work.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace fa2 {
namespace {

using Kind = Transfer::Kind;

/// A rank's queries of one document.
struct DocumentQueries {
  Slice document;
  std::vector<Slice> pieces;
  Slice rows;  ///< of the rank's Q
};

/// Keys of one document that one rank has and another needs.
struct DocumentKeys {
  Slice document;
  std::vector<Slice> ranges;
};
using StageKeys = std::vector<DocumentKeys>;

/// Rows of an outbox. Slices are in the order of the stages that have them.
class Outbox {
 public:
  explicit Outbox(const std::vector<StageKeys>& stages) {
    std::int64_t row = 0;
    for (const StageKeys& keys : stages) {
      for (const DocumentKeys& of : keys) {
        for (const Slice& range : of.ranges)
          slices_.push_back({range, std::exchange(row, row + range.size())});
      }
    }
    std::ranges::sort(slices_, {}, [](const Part& part) { return part.slice.begin; });
  }

  /// Returns the row of a token, which the rank must hold.
  std::int64_t of(std::int64_t token) const {
    const auto after =
        std::ranges::upper_bound(slices_, token, {}, [](const Part& part) { return part.slice.begin; });
    const Part& part = *std::prev(after);
    return part.row + token - part.slice.begin;
  }

 private:
  struct Part {
    Slice slice;
    std::int64_t row;
  };
  std::vector<Part> slices_;
};

std::vector<DocumentQueries> queries_of(const IntervalPlan& plan, const StreamMask& mask, int rank) {
  std::vector<DocumentQueries> all;
  for (const Slice& slice : plan.held[rank].slices()) {
    for (const Slice& piece : mask.by_document(slice)) {
      const Slice document = mask.document_of(piece.begin);
      const std::int64_t row = plan.held[rank].of(piece.begin);
      if (all.empty() || all.back().document != document) all.push_back({document, {}, {row, row}});
      all.back().pieces.push_back(piece);
      all.back().rows.end += piece.size();
    }
  }
  return all;
}

StageKeys keys_between(const IntervalPlan& plan, const StreamMask& mask, int to, int from) {
  StageKeys all;
  for (const Slice& wanted : plan.needed[to].slices()) {
    for (const Slice& keys : plan.held[from].within(wanted)) {
      for (const Slice& range : mask.by_document(keys)) {
        const Slice document = mask.document_of(range.begin);
        if (all.empty() || all.back().document != document) all.push_back({document, {}});
        all.back().ranges.push_back(range);
      }
    }
  }
  return all;
}

bool has_distances(const AttentionProblem& p) {
  return p.window_left || p.window_right || p.alibi;
}

/// Returns what makes a position among `ranges`, which lie one after the other, of the number of a query in its document's rows. `row`: that
/// of the first query of `piece`. Absent if the queries see some of several ranges and stand in none.
std::optional<std::int64_t> position_shift(const DocumentQueries& queries, const Slice& piece,
                                           std::int64_t row, const std::vector<Slice>& ranges) {
  if (ranges.size() == 1) return piece.begin - ranges.front().begin - row;
  std::int64_t keys = 0, seen = 0;
  for (const Slice& range : ranges) {
    if (range.begin <= piece.begin && piece.begin < range.end) return keys + piece.begin - range.begin - row;
    keys += range.size();
    if (range.end <= piece.begin) seen = keys;
  }
  if (seen == keys) return keys;
  if (seen == 0) return -queries.rows.size();
  return std::nullopt;
}

/// Returns the sequence of a document. `first_row`: of its keys in the stage. Absent if no two pieces describe what queries see.
std::optional<LocalSequence> sequence_of(const AttentionProblem& p, const DocumentQueries& queries,
                                         const std::vector<Slice>& ranges, std::int64_t first_row) {
  LocalSequence made{queries.rows, {first_row, first_row}, queries.rows.size()};
  for (const Slice& range : ranges) made.keys.end += range.size();
  if (!has_diagonal(p) || ranges.empty()) return made;
  if (ranges.size() > 1 && has_distances(p)) return std::nullopt;
  const Slice& piece = queries.pieces.front();
  const auto first = position_shift(queries, piece, 0, ranges);
  const auto second =
      queries.pieces.size() == 1 ? first : position_shift(queries, queries.pieces[1], piece.size(), ranges);
  if (!first || !second) return std::nullopt;
  made.first = *first, made.second = *second;
  if (*first != *second) made.split = piece.size();
  return made;
}

/// Returns the document's ranges; none if the stage has none.
std::vector<Slice> ranges_of(const StageKeys& keys, const Slice& document) {
  const auto of = std::ranges::lower_bound(keys, document.begin, {},
                                           [](const DocumentKeys& k) { return k.document.begin; });
  return of != keys.end() && of->document == document ? of->ranges : std::vector<Slice>{};
}

/// Returns the sequences of a stage; none if some document's ranges must be apart.
std::vector<LocalSequence> sequences_of(const AttentionProblem& p,
                                        const std::vector<DocumentQueries>& queries, const StageKeys& keys) {
  std::vector<LocalSequence> sequences;
  std::int64_t row = 0;
  for (const DocumentQueries& of : queries) {
    const auto sequence = sequence_of(p, of, ranges_of(keys, of.document), row);
    if (!sequence) return {};
    sequences.push_back(*sequence);
    row = sequence->keys.end;
  }
  return sequences;
}

/// Returns the keys of each stage between two ranks. `all`: those that one has and the other, with `queries`, needs.
std::vector<StageKeys> stages_between(const AttentionProblem& p, const std::vector<DocumentQueries>& queries,
                                      const StageKeys& all) {
  if (all.empty()) return {};
  if (!sequences_of(p, queries, all).empty()) return {all};
  std::vector<StageKeys> stages;
  for (const DocumentKeys& of : all) {
    stages.resize(std::max(stages.size(), of.ranges.size()));
    for (std::size_t i = 0; i < of.ranges.size(); ++i) stages[i].push_back({of.document, {of.ranges[i]}});
  }
  return stages;
}

/// Appends a copy, or makes the last one longer if both sides follow it.
void add_rows(std::vector<RowCopy>& copies, const RowCopy& copy) {
  if (!copies.empty()) {
    RowCopy& last = copies.back();
    if (last.from + last.rows == copy.from && last.to + last.rows == copy.to) {
      last.rows += copy.rows;
      return;
    }
  }
  copies.push_back(copy);
}

/// Returns the copies of a stage's keys from their owner's outbox.
std::vector<RowCopy> copies_of(const StageKeys& keys, const Outbox& outbox) {
  std::vector<RowCopy> copies;
  std::int64_t row = 0;
  for (const DocumentKeys& of : keys) {
    for (const Slice& range : of.ranges)
      add_rows(copies, {outbox.of(range.begin), std::exchange(row, row + range.size()), range.size()});
  }
  return copies;
}

/// Stages of all ranks, which a rank needs to know when it sends what.
class AllStages {
 public:
  AllStages(const AttentionProblem& p, const IntervalPlan& plan, const StreamMask& mask)
      : ranks_(static_cast<int>(plan.held.size())) {
    for (int to = 0; to < ranks_; ++to) {
      const std::vector<DocumentQueries> queries = queries_of(plan, mask, to);
      for (int distance = 0; distance < ranks_; ++distance)
        between_.push_back(stages_between(p, queries, keys_between(plan, mask, to, below(to, distance))));
    }
    for (int rank = 0; rank < ranks_; ++rank) outboxes_.emplace_back(of(rank, 0));
  }

  int below(int rank, int distance) const { return (rank - distance + ranks_) % ranks_; }
  const Outbox& outbox(int rank) const { return outboxes_[rank]; }

  /// Returns the most stages that a rank has with the one so far below.
  std::size_t count(int distance) const {
    std::size_t most = 0;
    for (int rank = 0; rank < ranks_; ++rank) most = std::max(most, of(rank, distance).size());
    return most;
  }
  /// Returns the keys of a rank's stage; empty if it has none.
  StageKeys keys(int rank, int distance, std::size_t number) const {
    const std::vector<StageKeys>& stages = of(rank, distance);
    return number < stages.size() ? stages[number] : StageKeys{};
  }

 private:
  const std::vector<StageKeys>& of(int rank, int distance) const {
    return between_[static_cast<std::size_t>(rank) * ranks_ + distance];
  }

  int ranks_;
  std::vector<std::vector<StageKeys>> between_;
  std::vector<Outbox> outboxes_;
};

/// Adds what a stage at `distance` > 0 sends and receives.
void add_messages(KeyStage& stage, const AllStages& all, int rank, int distance, std::size_t number) {
  const int from = all.below(rank, distance), to = all.below(rank, -distance);
  for (const RowCopy& c : copies_of(all.keys(to, distance, number), all.outbox(rank))) {
    stage.gather.push_back({Kind::send, to, c.from, c.rows});
    stage.returns.push_back({Kind::receive, to, stage.arrivals, c.rows});
    stage.adds.push_back({std::exchange(stage.arrivals, stage.arrivals + c.rows), c.from, c.rows});
  }
  for (const RowCopy& c : copies_of(all.keys(rank, distance, number), all.outbox(from))) {
    stage.gather.push_back({Kind::receive, from, c.to, c.rows});
    stage.returns.push_back({Kind::send, from, c.to, c.rows});
  }
}

}  // namespace

KeyStages plan_key_stages(const AttentionProblem& problem, const IntervalPlan& plan, const StreamMask& mask,
                          int rank) {
  const AllStages all(problem, plan, mask);
  const std::vector<DocumentQueries> queries = queries_of(plan, mask, rank);
  const RowsOfSlices& held = plan.held.at(rank);
  KeyStages made;
  for (const DocumentQueries& of : queries) {
    for (const Slice& piece : of.pieces)
      add_rows(made.own, {held.of(piece.begin), all.outbox(rank).of(piece.begin), piece.size()});
  }
  for (int distance = 0; distance < static_cast<int>(plan.held.size()); ++distance) {
    for (std::size_t number = 0; number < all.count(distance); ++number) {
      const StageKeys keys = all.keys(rank, distance, number);
      KeyStage stage;
      stage.sequences = sequences_of(problem, queries, keys);
      if (!stage.sequences.empty()) stage.rows = stage.sequences.back().keys.end;
      if (distance == 0)
        stage.own = keys.empty() ? 0 : all.outbox(rank).of(keys.front().ranges.front().begin);
      else
        add_messages(stage, all, rank, distance, number);
      made.stages.push_back(std::move(stage));
    }
  }
  return made;
}

}  // namespace fa2
