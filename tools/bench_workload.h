// The problems that a benchmark measures.
#pragma once

#include <fa2/problem.h>
#include <tools/length_options.h>
#include <tools/problem_options.h>
#include <tools/sequence_tables.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace fa2::tools {

/// `--head-dim 64,128 --lengths SPEC ...`, or `--decode`.
struct WorkloadOptions {
  MatrixOptions matrix;
  LengthOptions lengths;
  bool decode = false;
  bool has_head_dims = false;  ///< the user named head dims in `matrix`

  void add_to(CLI::App& verb);
};

/// Problems and the tables of their sequences. They are the matrix at every length, packed with one mix of
/// lengths, or over KV caches.
struct Workload {
  std::vector<AttentionProblem> problems;  ///< row by row in the table
  std::vector<std::string> columns;        ///< lengths; none over caches
  SequenceTables tables;                   ///< tables of packed sequences, else none
  std::vector<SequenceTables> caches;      ///< over caches: one per problem, empty if it is batched
  std::vector<std::string> keys;           ///< over caches: the keys in words, "8192" or "lognormal:4096"
  std::string text;                        ///< "by sequence length: 16384 tokens, hidden 2048"

  /// Returns whether keys lie in caches, as in decoding, and are read cold.
  bool is_cached() const { return !caches.empty(); }
  const SequenceTables& tables_of(std::size_t point) const { return is_cached() ? caches[point] : tables; }
};

/// @throws CLI::ValidationError.
Workload workload_of(const WorkloadOptions& options);

/// Returns the bytes in the keys and values of all sequences. `tables`: those of the problem.
double key_value_bytes(const AttentionProblem& problem, const SequenceTables& tables);

}  // namespace fa2::tools
