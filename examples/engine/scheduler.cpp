// Shares tokens and pages among sequences.
#include "scheduler.h"

#include <fa2/errors.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace example {
namespace {

using Violations = std::vector<fa2::Violation>;

void require_at_least(std::int64_t least, const std::string& name, std::int64_t value, const std::string& why,
                      Violations& violations) {
  if (value < least)
    violations.push_back(
        {name, std::to_string(value), "must be at least " + std::to_string(least) + ": " + why});
}

const EngineLimits& valid(const EngineLimits& limits) {
  require_valid(limits);
  return limits;
}

}  // namespace

void require_valid(const EngineLimits& limits) {
  Violations violations;
  require_at_least(1, "batch", limits.batch, "a step has a sequence", violations);
  require_at_least(std::max<std::int64_t>(1, limits.batch), "step_tokens", limits.step_tokens,
                   "every sequence of a full batch may decode one", violations);
  require_at_least(2, "longest", limits.longest, "a prompt and a generated token", violations);
  require_at_least(1, "page_size", limits.page_size, "a page holds a token", violations);
  if (limits.page_size >= 1)
    require_at_least(limits.max_pages(), "pages", limits.pages, "one longest sequence fills as many",
                     violations);
  if (!violations.empty()) throw fa2::InvalidRequest(violations);
}

Scheduler::Scheduler(const EngineLimits& limits, std::uint64_t seed)
    : limits_(valid(limits)), pool_(limits.pages, seed) {}

void Scheduler::submit(Request request) {
  Violations violations;
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  require_at_least(1, "prompt tokens", prompt, "the first query comes from the prompt", violations);
  require_at_least(1, "new_tokens", request.new_tokens, "ask for a token", violations);
  if (prompt + request.new_tokens > limits_.longest)
    violations.push_back(
        {"prompt tokens + new_tokens", std::to_string(prompt + request.new_tokens),
         "must be at most longest = " + std::to_string(limits_.longest) + ": shorten the request"});
  if (!violations.empty()) throw fa2::InvalidRequest(violations);
  waiting_.push_back(std::make_unique<Sequence>(std::move(request)));
}

Step Scheduler::next() {
  Step step;
  std::int64_t budget = limits_.step_tokens - decoding();
  const auto add_chunk = [&](Sequence& sequence) {
    const std::int64_t tokens = std::min(sequence.rest(), budget);
    if (tokens == 0 || !grow(sequence, sequence.cached + tokens)) return;
    step.parts.push_back({&sequence, tokens});
    step.prefill_tokens += tokens;
    budget -= tokens;
  };
  for (std::size_t i = 0; i < running_.size(); ++i) {  // grow() may remove the last ones
    Sequence& sequence = *running_[i];
    if (sequence.rest() > 1) {
      add_chunk(sequence);
    } else if (grow(sequence, sequence.cached + 1)) {
      step.parts.push_back({&sequence, 1});
      ++step.decode_tokens;
    }
  }
  while (budget > 0 && can_admit()) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    add_chunk(*running_.back());
  }
  if (step.parts.empty() && has_work())
    throw std::logic_error("no sequence can run: " + std::to_string(pool_.free_pages()) + " of " +
                           std::to_string(limits_.pages) + " pages are free");
  return step;
}

void Scheduler::commit(const Step& step, const Tokens& sampled) {
  auto token = sampled.begin();
  for (const StepPart& part : step.parts) {
    part.sequence->cached += part.tokens;
    if (part.sequence->rest() == 0) part.sequence->tokens.push_back(*token++);
  }
  for (std::unique_ptr<Sequence>& sequence : running_) {
    if (!sequence->is_done()) continue;
    give_back_pages(*sequence);
    finished_.push_back(std::move(sequence));
  }
  std::erase(running_, nullptr);
}

/// Returns the running sequences that compute one token. No step leaves them out, unless they are preempted.
std::int64_t Scheduler::decoding() const {
  return std::ranges::count_if(running_, [](const auto& sequence) { return sequence->rest() == 1; });
}

/// Admission requires pages for all tokens that a sequence has, and for one more. Otherwise two sequences with long prompts could
/// preempt each other's half of a prompt again and again.
bool Scheduler::can_admit() const {
  if (waiting_.empty() || static_cast<std::int64_t>(running_.size()) == limits_.batch) return false;
  const std::int64_t tokens = std::min(waiting_.front()->length() + 1, limits_.longest);
  return pages_for(tokens, limits_.page_size) <= pool_.free_pages();
}

/// Gives a sequence the pages of `tokens` tokens. Returns false if that preempted the sequence itself.
bool Scheduler::grow(Sequence& sequence, std::int64_t tokens) {
  const auto pages = static_cast<std::size_t>(pages_for(tokens, limits_.page_size));
  while (sequence.pages.size() < pages) {
    if (pool_.free_pages() > 0) {
      sequence.pages.push_back(pool_.take());
      continue;
    }
    const bool is_last = running_.back().get() == &sequence;
    preempt_last();
    if (is_last) return false;
  }
  return true;
}

void Scheduler::preempt_last() {
  std::unique_ptr<Sequence> sequence = std::move(running_.back());
  running_.pop_back();
  give_back_pages(*sequence);
  sequence->cached = 0;
  ++sequence->preemptions;
  ++preemptions_;
  waiting_.push_front(std::move(sequence));
}

void Scheduler::give_back_pages(Sequence& sequence) {
  for (const std::int32_t page : sequence.pages) pool_.give_back(page);
  sequence.pages.clear();
}

}  // namespace example
