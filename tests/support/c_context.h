// Shared by the tests of the C interface: a context with its own directory, a small problem, the last
// message.
#pragma once

#include <doctest/doctest.h>
#include <fa2/c_api.h>

#include <string>
#include <string_view>

#include "temporary_directory.h"

namespace fa2::test {

/// A context that neither compiles nor searches, and uses only its own cache.
class CContext {
 public:
  CContext() {
    const std::string cache = directory_.path();
    fa2_context_options options = FA2_CONTEXT_OPTIONS_INIT;
    options.cache_dir = cache.c_str();
    options.read_only_caches = "";
    options.tune = FA2_TUNE_OFF;
    options.jit = FA2_JIT_OFF;
    REQUIRE(fa2_context_create(&options, &context_) == FA2_OK);
  }
  ~CContext() { fa2_context_destroy(context_); }
  CContext(const CContext&) = delete;
  CContext& operator=(const CContext&) = delete;

  fa2_context* get() const { return context_; }

 private:
  TemporaryDirectory directory_;
  fa2_context* context_ = nullptr;
};

inline fa2_problem small_problem() {
  fa2_problem problem = FA2_PROBLEM_INIT;
  problem.head_dim = 64;
  problem.seqlen_q = problem.seqlen_k = 16;
  return problem;
}

/// Returns whether the last message contains `part`.
inline bool says(const std::string& part) {
  return std::string_view(fa2_last_error()).find(part) != std::string_view::npos;
}

}  // namespace fa2::test
