// Makes tables of lengths, and puts NaN where nothing may be read.
#include "varlen.h"

#include <reference/row_block.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace fa2::test {
namespace {

constexpr std::int32_t kBefore = 3, kAfter = 5;  ///< rows of no sequence

std::int64_t longest(const std::vector<std::int32_t>& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

/// Returns how many rows of sequence `b` do not count.
std::int32_t room(Packing packing, std::size_t b) {
  return packing == Packing::roomy ? static_cast<std::int32_t>(b % 3) : 0;
}

std::vector<std::int32_t> borders(const std::vector<std::int32_t>& lengths, Packing packing) {
  std::vector<std::int32_t> all = {kBefore};
  for (std::size_t b = 0; b < lengths.size(); ++b) all.push_back(all.back() + lengths[b] + room(packing, b));
  return all;
}

/// Returns the lengths of more sequences than a warp has lanes.
std::vector<std::int32_t> many(std::int32_t first) {
  return many_lengths(first, 34);
}

bool is_in(const reference::SequenceRows& rows, std::int64_t entry, std::int64_t r) {
  return entry == rows.entry && r >= rows.begin && r < rows.begin + rows.count;
}

/// Sets every element to NaN for which seen(entry, row) is false.
template <class Seen>
void poison_rows(reference::Tensor& tensor, const Seen& seen) {
  for (std::int64_t entry = 0; entry < tensor.batch; ++entry) {
    for (std::int64_t r = 0; r < tensor.rows; ++r) {
      if (!seen(entry, r)) poison(tensor, {entry, r, 1});
    }
  }
}

/// Sets rows of no sequence to NaN, in a tensor shaped like Q or O.
void poison_queries(reference::Tensor& tensor, const std::vector<reference::Sequence>& sequences) {
  poison_rows(tensor, [&](std::int64_t entry, std::int64_t r) {
    return std::ranges::any_of(sequences, [&](const auto& s) { return is_in(s.q, entry, r); });
  });
}

/// Returns whether a query sees the key. Of pieces of queries, keys between those of the first and the last query count too.
bool is_key_seen(const AttentionProblem& alone, const QueryPieces& pieces, std::int64_t j) {
  if (alone.query_pieces)
    return alone.seqlen_q > 0 && j >= reference::visible_keys(alone, pieces, 0).begin &&
           j < reference::visible_keys(alone, pieces, alone.seqlen_q - 1).end;
  for (std::int64_t i = 0; i < alone.seqlen_q; ++i) {
    if (reference::is_visible(alone, i, j)) return true;
  }
  return false;
}

}  // namespace

AttentionProblem with_lengths(AttentionProblem problem, const Lengths& lengths, Packing packing) {
  problem.varlen = true;
  problem.batch = static_cast<std::int64_t>(lengths.q.size());
  const bool is_exact = packing == Packing::packed;
  problem.seqlen_q = longest(lengths.q) + (is_exact ? 0 : 7);
  problem.seqlen_k = longest(lengths.k) + (is_exact ? 0 : 29);
  if (packing != Packing::batched) problem.total_q = borders(lengths.q, packing).back() + kAfter;
  if (packing == Packing::packed || packing == Packing::roomy)
    problem.total_k = borders(lengths.k, packing).back() + kAfter;
  return problem;
}

void set_lengths(GuardedCall& call, const Lengths& lengths, Packing packing) {
  call.tables = {};
  if (packing != Packing::batched) call.tables.cu_seqlens_q = borders(lengths.q, packing);
  if (packing == Packing::packed || packing == Packing::roomy)
    call.tables.cu_seqlens_k = borders(lengths.k, packing);
  if (packing == Packing::roomy || packing == Packing::batched) call.tables.seqused_q = lengths.q;
  if (packing != Packing::packed) call.tables.seqused_k = lengths.k;
}

std::vector<std::int32_t> many_lengths(std::int32_t first, std::int32_t sequences) {
  std::vector<std::int32_t> lengths;
  for (std::int32_t b = 0; b < sequences; ++b) lengths.push_back((first + 5 * b) % 9 + 1);
  return lengths;
}

const std::vector<Lengths>& length_mixes() {
  static const std::vector<Lengths> kMixes = {Lengths({1}),
                                              Lengths({0, 5, 0}),
                                              Lengths({63, 64, 65}),
                                              Lengths({3, 1, 200, 2, 7, 5, 1}),
                                              Lengths(many(0)),
                                              {{5, 70, 3, 20, 0, 33}, {0, 10, 90, 128, 8, 33}},
                                              {many(2), many(7)},
                                              Lengths({129, 0, 127}),
                                              {{1, 1, 1, 1}, {130, 64, 0, 17}}};
  return kMixes;
}

void vary_numbers(GuardedCall& call, std::size_t i) {
  if (i % 4 == 1) call.args.softmax_scale = -0.3f;
  if (!call.problem.alibi || i % 2 == 0) return;
  call.args.alibi_slopes_per_batch = true;
  std::vector<float>& slopes = call.numbers["alibi_slopes"];
  slopes.clear();
  for (std::int64_t n = 0; n < call.problem.batch * call.problem.heads_q; ++n)
    slopes.push_back(static_cast<float>(n % 7) * 0.1f - 0.2f);
}

void poison(reference::Tensor& tensor, const reference::SequenceRows& rows) {
  for (std::int64_t h = 0; h < tensor.heads; ++h) {
    for (std::int64_t r = rows.begin; r < rows.begin + rows.count; ++r) {
      for (std::int64_t d = 0; d < tensor.dim; ++d)
        tensor.at(rows.entry, h, r, d) = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

void poison_unseen(GuardedCall& call) {
  const std::vector<reference::Sequence> sequences = call.sequences();
  poison_queries(call.q, sequences);
  for (reference::Tensor* tensor : {&call.k, &call.v}) {
    poison_rows(*tensor, [&](std::int64_t entry, std::int64_t r) {
      return std::ranges::any_of(sequences, [&](const reference::Sequence& s) {
        const auto b = &s - sequences.data();
        const reference::ScoreRule rule = reference::rule_of(call.problem, s, call.rule(), b);
        return is_in(s.k, entry, r) &&
               is_key_seen(reference::problem_of(call.problem, s), rule.numbers.query_pieces, r - s.k.begin);
      });
    });
  }
}

void poison_unseen(GuardedBackward& call) {
  poison_unseen(call.forward);
  const std::vector<reference::Sequence> sequences = call.forward.sequences();
  poison_queries(call.d_out, sequences);
  if (call.d_lse.empty()) return;
  reference::Tensor d_lse{call.d_out.batch, call.d_out.heads, call.d_out.rows, 1, std::move(call.d_lse)};
  poison_queries(d_lse, sequences);
  call.d_lse = std::move(d_lse.values);
}

GuardedBackward backward_of(const AttentionProblem& problem, const Lengths& lengths, Packing packing,
                            MakeLayout layout) {
  const AttentionProblem p = with_lengths(problem, lengths, packing);
  GuardedBackward call(p, backward_layouts_of(p, layout));
  set_lengths(call.forward, lengths, packing);
  call.give_d_lse();
  poison_unseen(call);
  call.upload();
  return call;
}

GuardedBackward alone(const GuardedBackward& all, std::size_t b) {
  const reference::Sequence sequence = all.forward.sequences()[b];
  GuardedBackward one(reference::problem_of(all.forward.problem, sequence));
  one.forward.q = reference::rows_of(all.forward.q, sequence.q);
  one.forward.k = reference::rows_of(all.forward.k, sequence.k);
  one.forward.v = reference::rows_of(all.forward.v, sequence.k);
  one.d_out = reference::rows_of(all.d_out, sequence.q);
  const reference::Tensor d_lse{all.d_out.batch, all.d_out.heads, all.d_out.rows, 1, all.d_lse};
  one.d_lse = reference::rows_of(d_lse, sequence.q).values;
  one.upload();
  return one;
}

}  // namespace fa2::test
