// The engine's scheduler, without attention: a fake model whose next token depends on all tokens before it.
#include <doctest/doctest.h>
#include <examples/engine/scheduler.h>
#include <fa2/errors.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace example;

namespace {

std::uint8_t next_token(const Tokens& tokens) {
  unsigned hash = 7;
  for (const std::uint8_t token : tokens) hash = hash * 31 + token;
  return static_cast<std::uint8_t>(hash >> 3);
}

Request request(std::int64_t id, std::int64_t prompt, std::int64_t new_tokens) {
  Request result{.id = id, .prompt = Tokens(static_cast<std::size_t>(prompt)), .new_tokens = new_tokens};
  std::iota(result.prompt.begin(), result.prompt.end(), static_cast<std::uint8_t>(id));
  return result;
}

/// Returns what the fake model generates for a request alone.
Tokens tokens_alone(const Request& asked) {
  Tokens tokens = asked.prompt;
  for (std::int64_t i = 0; i < asked.new_tokens; ++i) tokens.push_back(next_token(tokens));
  return tokens;
}

/// Computes a step with the fake model.
void compute(Scheduler& scheduler, const Step& step) {
  Tokens sampled;
  for (const StepPart& part : step.parts) {
    if (part.samples()) sampled.push_back(next_token(part.sequence->tokens));
  }
  scheduler.commit(step, sampled);
}

/// Checks the rules of every step.
void expect_valid(const Step& step, const EngineLimits& limits, const PagePool& pool) {
  CHECK(step.tokens() <= limits.step_tokens);
  CHECK(static_cast<std::int64_t>(step.parts.size()) <= limits.batch);
  REQUIRE_FALSE(step.parts.empty());
  std::int64_t tokens = 0;
  std::set<std::int32_t> pages;
  for (const StepPart& part : step.parts) {
    CHECK(part.tokens >= 1);
    CHECK(part.tokens <= part.sequence->rest());
    tokens += part.tokens;
    CHECK(static_cast<std::int64_t>(part.sequence->pages.size()) ==
          pages_for(part.sequence->cached + part.tokens, limits.page_size));
    for (const std::int32_t page : part.sequence->pages) CHECK(pages.insert(page).second);
  }
  CHECK(tokens == step.tokens());
  CHECK(static_cast<std::int64_t>(pages.size()) <= limits.pages - pool.free_pages());
}

/// Serves requests to their end and checks every step.
void serve(Scheduler& scheduler, const EngineLimits& limits) {
  for (int steps = 0; scheduler.has_work(); ++steps) {
    REQUIRE(steps < 10000);
    const Step step = scheduler.next();
    expect_valid(step, limits, scheduler.pool());
    compute(scheduler, step);
  }
}

std::vector<std::int64_t> finished_ids(const Scheduler& scheduler) {
  std::vector<std::int64_t> ids;
  for (const auto& sequence : scheduler.finished()) ids.push_back(sequence->request.id);
  return ids;
}

/// Returns the rules of an error, as text; empty if nothing is thrown.
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const fa2::InvalidRequest& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("scheduler: random requests end with the tokens that each has alone, and with all pages free") {
  std::mt19937_64 random(3);
  std::int64_t preemptions = 0;
  for (int round = 0; round < 40; ++round) {
    const auto below = [&](std::uint64_t bound) { return static_cast<std::int64_t>(random() % bound); };
    EngineLimits limits{
        .batch = 1 + below(6), .step_tokens = 6 + below(20), .longest = 40, .page_size = 1 + below(7)};
    limits.pages = limits.max_pages() + below(20);
    Scheduler scheduler(limits, random());
    std::map<std::int64_t, Tokens> expected;
    for (std::int64_t id = 0; id < 12; ++id) {
      const Request asked = request(id, 1 + below(25), 1 + below(15));
      expected[id] = tokens_alone(asked);
      scheduler.submit(asked);
    }
    serve(scheduler, limits);
    CHECK(scheduler.pool().free_pages() == limits.pages);
    REQUIRE(scheduler.finished().size() == expected.size());
    for (const auto& sequence : scheduler.finished())
      CHECK(sequence->tokens == expected.at(sequence->request.id));
    preemptions += scheduler.preemptions();
  }
  CHECK(preemptions > 20);  // otherwise nothing was tested of them
}

TEST_CASE("scheduler: decoding sequences come first, and prompts fill the rest of the budget") {
  const EngineLimits limits{.batch = 3, .step_tokens = 8, .longest = 64, .page_size = 4, .pages = 64};
  Scheduler scheduler(limits, 1);
  scheduler.submit(request(0, 3, 20));
  Step step = scheduler.next();
  CHECK(step.prefill_tokens == 3);
  compute(scheduler, step);
  scheduler.submit(request(1, 20, 5));
  scheduler.submit(request(2, 4, 5));
  std::vector<std::int64_t> chunks;
  for (int i = 0; i < 4; ++i) {
    step = scheduler.next();
    CHECK(step.decode_tokens >= 1);  // a long prompt does not stop sequence 0
    CHECK(step.parts[0].sequence->request.id == 0);
    CHECK(step.parts[0].tokens == 1);
    chunks.push_back(step.parts.back().tokens);
    compute(scheduler, step);
  }
  // 7 + 7 + 6 tokens of sequence 1, and 1 of sequence 2 beside its last; then the rest of sequence 2.
  CHECK(chunks == std::vector<std::int64_t>{7, 7, 1, 3});
  CHECK(step.decode_tokens == 2);
}

TEST_CASE("scheduler: requests of equal length end in the order of their arrival") {
  EngineLimits limits{.batch = 3, .step_tokens = 7, .longest = 24, .page_size = 2};
  for (const std::int64_t pages : {12, 15, 40}) {
    limits.pages = pages;
    Scheduler scheduler(limits, 1);
    for (std::int64_t id = 0; id < 9; ++id) scheduler.submit(request(id, 12, 6));
    serve(scheduler, limits);
    const std::vector<std::int64_t> ids = finished_ids(scheduler);
    CHECK(std::ranges::is_sorted(ids));
    CHECK(ids.size() == 9);
  }
}

TEST_CASE("scheduler: a long prompt at the head of the queue is not overtaken for ever by short ones") {
  const EngineLimits limits{.batch = 2, .step_tokens = 6, .longest = 40, .page_size = 2, .pages = 20};
  Scheduler scheduler(limits, 1);
  scheduler.submit(request(0, 4, 4));
  scheduler.submit(request(1, 34, 5));
  for (std::int64_t id = 2; id < 30; ++id) scheduler.submit(request(id, 2, 2));
  serve(scheduler, limits);
  const std::vector<std::int64_t> ids = finished_ids(scheduler);
  CHECK(ids[0] == 0);
  CHECK(std::ranges::find(ids, 1) - ids.begin() <= 12);  // at most its neighbours in the batch end earlier
}

TEST_CASE(
    "scheduler: when pages run out, the sequence that came last gives its pages back and begins again") {
  const EngineLimits limits{.batch = 2, .step_tokens = 16, .longest = 12, .page_size = 1, .pages = 14};
  Scheduler scheduler(limits, 1);
  scheduler.submit(request(0, 4, 8));
  scheduler.submit(request(1, 4, 8));
  serve(scheduler, limits);
  CHECK(finished_ids(scheduler) == std::vector<std::int64_t>{0, 1});
  CHECK(scheduler.finished()[0]->preemptions == 0);
  CHECK(scheduler.finished()[1]->preemptions == 1);
  CHECK(scheduler.finished()[1]->tokens == tokens_alone(request(1, 4, 8)));
  CHECK(scheduler.pool().free_pages() == 14);
}

TEST_CASE("scheduler: errors list every wrong limit, and requests that could never run") {
  const std::string limits =
      error_of([] { require_valid({.batch = 0, .step_tokens = 0, .longest = 1, .page_size = 0}); });
  for (const char* name : {"batch = 0", "step_tokens = 0", "longest = 1", "page_size = 0"})
    CHECK_MESSAGE(limits.find(name) != std::string::npos, limits);
  CHECK(error_of([] {
          require_valid({.batch = 8, .step_tokens = 4, .longest = 65, .page_size = 16, .pages = 4});
        }).find("pages = 4, must be at least 5") != std::string::npos);

  Scheduler scheduler({.batch = 2, .step_tokens = 8, .longest = 16, .page_size = 4, .pages = 8}, 1);
  CHECK(error_of([&] { scheduler.submit(request(0, 12, 5)); }).find("must be at most longest = 16") !=
        std::string::npos);
  const std::string empty = error_of([&] { scheduler.submit(request(0, 0, 0)); });
  CHECK(empty.find("prompt tokens = 0") != std::string::npos);
  CHECK(empty.find("new_tokens = 0") != std::string::npos);
  CHECK_FALSE(scheduler.has_work());
}
