// The log in a program: its callback, in C and C++, and the line of a plan.
#include <api/plan_log.h>
#include <doctest/doctest.h>
#include <fa2/c_log.h>
#include <fa2/errors.h>
#include <fa2/log.h>
#include <generator/kernel_spec.h>
#include <runtime/log.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using fa2::LogLevel;

/// Restores stderr and the level at the end.
class RestoredLog {
 public:
  RestoredLog() : level_(fa2::log_level()) { fa2::set_log_level(LogLevel::warn); }
  ~RestoredLog() {
    fa2::set_log({});
    fa2::set_log_level(level_);
  }
  RestoredLog(const RestoredLog&) = delete;
  RestoredLog& operator=(const RestoredLog&) = delete;

 private:
  LogLevel level_;
};

/// Returns what `body` writes to stderr.
template <class Body>
std::string stderr_of(const Body& body) {
  const fa2::test::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "stderr";
  std::fflush(stderr);
  const int saved = dup(STDERR_FILENO);
  REQUIRE(freopen(path.c_str(), "w", stderr) != nullptr);
  body();
  std::fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  return fa2::test::read_text(path);
}

using Message = std::pair<LogLevel, std::string>;

}  // namespace

TEST_CASE("log: a callback gets the messages that the level admits, instead of stderr") {
  const RestoredLog restored;
  std::vector<Message> seen;
  const std::string printed = stderr_of([&] {
    fa2::set_log([&](LogLevel level, std::string_view text) { seen.emplace_back(level, text); });
    fa2::log().warn("one {}", 1);
    fa2::log().info("dropped");
    fa2::set_log_level(LogLevel::debug);
    fa2::log().debug("two\xff");
    fa2::set_log_level(LogLevel::off);
    fa2::log().critical("dropped");
  });
  CHECK(seen == std::vector<Message>{{LogLevel::warn, "one 1"}, {LogLevel::debug, "two\\xff"}});
  CHECK(printed.empty());
}

TEST_CASE("log: without a callback, and after an empty one, messages go to stderr") {
  const RestoredLog restored;
  int calls = 0;
  const std::string printed = stderr_of([&] {
    fa2::log().warn("before");
    fa2::set_log([&](LogLevel, std::string_view) { ++calls; });
    fa2::log().warn("during");
    fa2::set_log({});
    fa2::log().warn("after");
  });
  CHECK(calls == 1);
  CHECK(printed.find("fa2 warning: before\n") != std::string::npos);
  CHECK(printed.find("during") == std::string::npos);
  CHECK(printed.find("fa2 warning: after\n") != std::string::npos);
}

TEST_CASE("log: an exception of the callback is swallowed, and the message goes to stderr") {
  const RestoredLog restored;
  const std::string printed = stderr_of([&] {
    fa2::set_log([](LogLevel, std::string_view text) {
      if (text == "standard") throw std::runtime_error("thrown");
      if (text == "any") throw 7;
    });
    CHECK_NOTHROW(fa2::log().warn("standard"));
    CHECK_NOTHROW(fa2::log().warn("any"));
    CHECK_NOTHROW(fa2::log().warn("taken"));
  });
  CHECK(printed.find("standard\n") != std::string::npos);
  CHECK(printed.find("any\n") != std::string::npos);
  CHECK(printed.find("taken") == std::string::npos);
}

TEST_CASE("log: a callback that logs, or sets another, neither recurses nor deadlocks") {
  const RestoredLog restored;
  int calls = 0, refusals = 0;
  const std::string printed = stderr_of([&] {
    fa2::set_log([&](LogLevel, std::string_view) {
      ++calls;
      fa2::log().warn("inner");
      try {
        fa2::set_log({});
      } catch (const fa2::InvalidRequest&) {
        ++refusals;
      }
      refusals += fa2_set_log(nullptr, nullptr) == FA2_INVALID_REQUEST;
    });
    fa2::log().warn("outer");
  });
  CHECK(calls == 1);
  CHECK(refusals == 2);
  CHECK(printed.find("inner\n") != std::string::npos);
  CHECK(printed.find("outer") == std::string::npos);
}

TEST_CASE("log: threads log while the callback is replaced; the previous one is not called again") {
  const RestoredLog restored;
  constexpr int kThreads = 4, kMessages = 500;
  struct Receiver {
    std::atomic<bool> is_live{false};
    std::atomic<int> calls{0}, late{0};
  };
  std::array<Receiver, 8> receivers;
  std::vector<std::thread> threads;
  const auto receive = [](Receiver& receiver) {
    receiver.is_live = true;
    fa2::set_log([&receiver](LogLevel, std::string_view) {
      ++receiver.calls;
      if (!receiver.is_live) ++receiver.late;
    });
  };
  receive(receivers[0]);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      for (int message = 0; message < kMessages; ++message) fa2::log().warn("{}", message);
    });
  }
  for (std::size_t next = 1; next < receivers.size(); ++next) {
    receive(receivers[next]);
    receivers[next - 1].is_live = false;
  }
  for (std::thread& thread : threads) thread.join();
  int calls = 0;
  for (const Receiver& receiver : receivers) {
    calls += receiver.calls;
    CHECK(receiver.late == 0);
  }
  CHECK(calls == kThreads * kMessages);
}

TEST_CASE("log: in C a callback with its data; levels are checked") {
  const RestoredLog restored;
  std::vector<Message> seen;
  const auto receive = [](void* data, std::int32_t level, const char* text) {
    static_cast<std::vector<Message>*>(data)->emplace_back(static_cast<LogLevel>(level), text);
  };
  REQUIRE(fa2_set_log(receive, &seen) == FA2_OK);
  REQUIRE(fa2_set_log_level(FA2_LOG_INFO) == FA2_OK);
  CHECK(fa2_log_level() == FA2_LOG_INFO);
  fa2::log().info("text");
  fa2::log().debug("dropped");
  REQUIRE(fa2_set_log(nullptr, nullptr) == FA2_OK);
  CHECK(seen == std::vector<Message>{{LogLevel::info, "text"}});
  for (const std::int32_t level : {-1, 7}) {
    CHECK(fa2_set_log_level(level) == FA2_INVALID_REQUEST);
    CHECK(std::string(fa2_last_error()).find("must be FA2_LOG_TRACE (0) to FA2_LOG_OFF (6)") !=
          std::string::npos);
  }
  CHECK(fa2_log_level() == FA2_LOG_INFO);
}

TEST_CASE("log: the line of a plan names each kernel, who chose it, why, and where it came from") {
  fa2::KernelReport tuned;
  tuned.config = fa2::parse_config("kernel=forward_sm80,tile_m=64");
  tuned.config_origin = fa2::ConfigOrigin::tuned_nearest;
  tuned.config_reason = "measured 4 us\nof a neighbour";
  tuned.origin = fa2::KernelOrigin::disk_cache;
  fa2::Explanation plan;
  plan.arch = "sm_80";
  plan.device = "some GPU";
  plan.problem.head_dim = 64;
  plan.kernels = {tuned};
  const std::string line = fa2::plan_line("plan", plan);
  CHECK(line.starts_with("plan of \"" + fa2::to_string(fa2::PlannedProblem(plan.problem, {})) +
                         "\" on some GPU (sm_80): forward_sm80 kernel=forward_sm80,tile_m=64,"));
  CHECK(line.ends_with(", tuned_nearest (measured 4 us of a neighbour), disk_cache"));
  fa2::KernelReport& delta = plan.kernels.emplace_back();
  delta.config = fa2::parse_config("kernel=backward_delta");
  delta.config_reason = "no other";
  delta.origin = fa2::KernelOrigin::compiled;
  CHECK(fa2::plan_line("backward plan", plan).ends_with(", heuristic (no other), compiled"));
  CHECK(fa2::plan_line("plan", plan).find("disk_cache; ") != std::string::npos);
  plan.kernels.clear();
  CHECK(fa2::plan_line("plan", plan).ends_with(": no kernel"));
}
