// Turns flags into problems with sequence lengths.
#include <fmt/format.h>
#include <generator/key_value_format.h>
#include <tools/bench_workload.h>
#include <tools/length_spec.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace fa2::tools {
namespace {

/// A decoding problem; bench/decode.py has the same list.
struct DecodeCase {
  std::int64_t batch, heads_q, heads_kv;
  const char* keys;  ///< a number: batched; else a LengthSpec, on the device
  std::int64_t queries = 1;
  std::int32_t page_size = 0;
};
constexpr DecodeCase kDecodeCases[] = {
    {1, 32, 8, "8192"},
    {1, 32, 8, "32768"},
    {1, 32, 8, "131072"},
    {16, 32, 8, "8192"},
    {64, 32, 8, "4096"},
    {32, 64, 8, "8192"},
    {1, 64, 8, "2048"},
    {.batch = 16, .heads_q = 32, .heads_kv = 8, .keys = "8192", .queries = 4},
    {64, 32, 8, "equal:4096"},
    {64, 32, 8, "lognormal:4096"},
    {.batch = 64, .heads_q = 32, .heads_kv = 8, .keys = "equal:4096", .page_size = 64},
    {.batch = 64, .heads_q = 32, .heads_kv = 8, .keys = "equal:4096", .page_size = 16},
    {.batch = 64, .heads_q = 32, .heads_kv = 8, .keys = "lognormal:4096", .page_size = 16},
};

Workload batched(const MatrixOptions& matrix) {
  Workload work;
  work.problems = matrix.problems();
  for (const std::int64_t seqlen : matrix.seqlens) work.columns.push_back(fmt::format("{}", seqlen));
  work.text = fmt::format("by sequence length: {} tokens, hidden {}", matrix.tokens, matrix.hidden);
  return work;
}

std::string text(const LengthSummary& lengths, const char* of) {
  return fmt::format("{} {}, longest {}, mean {:.1f}", lengths.total, of, lengths.longest, lengths.mean);
}

/// Returns each problem of the matrix once, with packed sequences.
Workload packed(MatrixOptions matrix, const LengthOptions& options) {
  Workload work;
  work.columns = {options.lengths};
  work.tables = options.tables(matrix.tokens);
  const LengthSummary q = summary_of(work.tables.cu_seqlens_q), k = summary_of(work.tables.cu_seqlens_k);
  matrix.seqlens = {1};
  for (AttentionProblem problem : matrix.problems()) {
    problem.batch = q.batch;
    set_lengths(problem, work.tables, q.total, k.total);
    require_valid_flags(problem);
    work.problems.push_back(problem);
  }
  work.text = fmt::format("of {} packed sequences: {}{}, hidden {}", q.batch, text(q, "tokens"),
                          options.lengths_k.empty() ? "" : ", " + text(k, "keys"), matrix.hidden);
  return work;
}

/// Adds a problem whose keys lie in a cache. `tables`: empty if it is batched.
void add_cached(Workload& work, AttentionProblem problem, SequenceTables tables, std::int32_t page_size,
                std::string keys) {
  const std::vector<std::int32_t>&lengths = tables.seqused_k, &pages = tables.page_table;
  if (!lengths.empty()) {
    problem.batch = static_cast<std::int64_t>(lengths.size());
    set_lengths(problem, tables, problem.seqlen_q, page_size > 0 ? page_size : std::ranges::max(lengths));
    problem.page_count = pages.empty() ? 0 : std::ranges::max(pages) + 1;
  }
  require_valid_flags(problem);
  work.problems.push_back(problem.normalized());
  work.caches.push_back(std::move(tables));
  work.keys.push_back(std::move(keys));
}

/// Returns each problem of the matrix once, over a cache with these numbers of keys.
Workload cached(MatrixOptions matrix, const LengthOptions& options) {
  Workload work;
  const SequenceTables tables = options.cache_tables(matrix.tokens);
  matrix.seqlens = {1};
  for (AttentionProblem problem : matrix.problems()) {
    problem.seqlen_q = *options.seqlen_q;
    add_cached(work, problem, tables, options.page_size, options.lengths);
  }
  const std::vector<std::int32_t>& lengths = tables.seqused_k;
  work.text = fmt::format("over a cache of {} keys, the longest sequence {}",
                          std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}),
                          std::ranges::max(lengths));
  return work;
}

/// Returns the standard cases with every head dim, dtype and the variants of the matrix.
Workload decoding(MatrixOptions matrix) {
  Workload work;
  matrix.seqlens = {1};
  matrix.causal = "no";
  matrix.variants.heads_kv = 1;
  for (AttentionProblem problem : matrix.problems()) {
    for (const DecodeCase& that : kDecodeCases) {
      problem.batch = that.batch;
      problem.heads_q = that.heads_q, problem.heads_kv = that.heads_kv;
      problem.seqlen_q = that.queries;
      const LengthSpec keys("--decode", that.keys);
      const bool is_batched = keys.count().has_value();
      if (is_batched) problem.seqlen_k = keys.lengths(1).at(0);
      add_cached(work, problem,
                 is_batched ? SequenceTables{} : cache_tables(keys.lengths(that.batch), that.page_size),
                 that.page_size, that.keys);
    }
  }
  work.text = "over caches";
  return work;
}

}  // namespace

void WorkloadOptions::add_to(CLI::App& verb) {
  matrix.add_to(verb);
  verb.add_option("--heads-kv", matrix.variants.heads_kv,
                  "Key/value heads, a divisor of --hidden / --head-dim; 0: as many")
      ->capture_default_str();
  lengths.add_to(verb);
  auto* flag = verb.add_flag(
      "--decode", decode,
      "One query or a few over long caches: a standard list; head dim 128 unless --head-dim says more");
  for (const char* other : {"--seqlen", "--causal", "--tokens", "--hidden", "--heads-kv", "--lengths"})
    flag->excludes(other);
  verb.get_option("--head-dim")->each([this](const std::string&) { has_head_dims = true; });
}

Workload workload_of(const WorkloadOptions& options) {
  MatrixOptions matrix = options.matrix;
  if (options.decode) {
    if (!options.has_head_dims) matrix.head_dims = {128};
    return decoding(std::move(matrix));
  }
  if (!options.lengths.given()) return batched(matrix);
  return options.lengths.seqlen_q ? cached(std::move(matrix), options.lengths)
                                  : packed(std::move(matrix), options.lengths);
}

double key_value_bytes(const AttentionProblem& problem, const SequenceTables& tables) {
  const AttentionProblem p = problem.normalized();
  auto keys = static_cast<double>(p.total_k > 0 ? p.total_k : p.batch * p.seqlen_k);
  if (!tables.seqused_k.empty())
    keys = std::accumulate(tables.seqused_k.begin(), tables.seqused_k.end(), 0.0);
  return keys * static_cast<double>(p.heads_kv * key_value_format(p).bytes_per_key());
}

}  // namespace fa2::tools
