// Decides which tokens each step computes, and which sequences hold the cache's pages.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "../model/page_pool.h"
#include "sequence.h"

namespace example {

struct EngineLimits {
  std::int64_t batch = 8;         ///< most sequences of a step; at least 1
  std::int64_t step_tokens = 64;  ///< most tokens of a step; at least `batch`
  std::int64_t longest = 128;     ///< most tokens of a sequence, generated ones included; at least 2
  std::int64_t page_size = 16;    ///< tokens per page; at least 1
  std::int64_t pages = 64;        ///< pages of each layer's cache; at least those of one longest sequence

  std::int64_t max_pages() const { return pages_for(longest, page_size); }
};

/// @throws fa2::InvalidRequest that lists every limit which is wrong.
void require_valid(const EngineLimits& limits);

/// A sequence's part of a step: its next `tokens` tokens after the cached ones. They already have pages.
struct StepPart {
  Sequence* sequence = nullptr;
  std::int64_t tokens = 0;

  /// Returns whether the sequence's next token follows from this step.
  bool samples() const { return tokens == sequence->rest(); }
};

struct Step {
  std::vector<StepPart> parts;  ///< in the order of arrival
  std::int64_t decode_tokens = 0;
  std::int64_t prefill_tokens = 0;

  std::int64_t tokens() const { return decode_tokens + prefill_tokens; }
};

/// Serves requests in the order of their arrival. A step takes one token of each decoding sequence, then fills its budget with
/// chunks of prompts, then admits waiting sequences for which there are free pages.
///
/// If a sequence needs a page and none is free, the sequence that arrived last gives back its pages, returns to the front of the
/// queue, and later computes all its tokens again. The oldest sequence therefore always advances, so every request ends.
class Scheduler {
 public:
  Scheduler(const EngineLimits& limits, std::uint64_t seed);

  /// Queues a request. @throws fa2::InvalidRequest if it could never run, which changes nothing.
  void submit(Request request);
  bool has_work() const { return !waiting_.empty() || !running_.empty(); }

  /// Returns the next step. commit() must follow. @throws std::logic_error if there is work but no sequence can run: pages are lost.
  Step next();
  /// Records that a step was computed, and retires finished sequences. `sampled` has one token per part that samples.
  void commit(const Step& step, const Tokens& sampled);

  /// Returns all finished sequences, in the order in which they ended.
  const std::vector<std::unique_ptr<Sequence>>& finished() const { return finished_; }
  const PagePool& pool() const { return pool_; }
  std::int64_t preemptions() const { return preemptions_; }

 private:
  std::int64_t decoding() const;
  bool can_admit() const;
  bool grow(Sequence& sequence, std::int64_t tokens);
  void preempt_last();
  void give_back_pages(Sequence& sequence);

  EngineLimits limits_;
  PagePool pool_;
  // Running sequences, then waiting ones, are in the order of arrival.
  std::deque<std::unique_ptr<Sequence>> running_, waiting_;
  std::vector<std::unique_ptr<Sequence>> finished_;
  std::int64_t preemptions_ = 0;
};

}  // namespace example
