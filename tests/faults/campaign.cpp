// A child process injects faults one after the other. If it dies, the next child goes on after the fault that killed it.
#include "campaign.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <ostream>
#include <vector>

namespace fa2::test {
namespace {

constexpr unsigned kSeconds = 30;
constexpr std::uint64_t kMostFailures = 20;

/// What child and parent share.
struct Progress {
  std::uint64_t next = 0;  ///< seed that the child is at
  bool is_over = false;
  std::array<std::uint64_t, 4> counts{};  ///< by Outcome
  std::array<char, 500> fault{};          ///< description of the fault in progress
};
Progress* progress = nullptr;

struct Row {
  std::string kind;
  std::array<std::uint64_t, 4> counts{};
  std::uint64_t crashed = 0, hung = 0;
};
std::vector<Row>& rows() {
  static std::vector<Row> all;
  return all;
}

/// Adds the counts to the row of the same kind.
void add(const Row& row) {
  const auto same = std::ranges::find(rows(), row.kind, &Row::kind);
  Row& sum = same == rows().end() ? rows().emplace_back(Row{.kind = row.kind}) : *same;
  for (std::size_t i = 0; i < sum.counts.size(); ++i) sum.counts[i] += row.counts[i];
  sum.crashed += row.crashed;
  sum.hung += row.hung;
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

void report(const std::string& kind, const std::string& how) {
  fmt::print(
      "{}: seed {}: {}: {}\n  replay: FA2_FAULT_SEED={} FA2_FAULT_COUNT=1 fa2_faults_tests "
      "--test-case='{}'\n",
      kind, progress->next, progress->fault.data(), how, progress->next,
      doctest::getContextOptions()->currentTest->m_name);
  std::fflush(stdout);
}

[[noreturn]] void run_child(const std::string& kind, const Seeds& seeds,
                            const std::function<Verdict(std::uint64_t)>& fault) {
  for (; progress->next < seeds.end; progress->next += seeds.step) {
    ::alarm(kSeconds);
    describe("not described");
    Verdict verdict;
    try {
      verdict = fault(progress->next);
    } catch (const std::exception& error) {
      verdict = wrong(fmt::format("exception: {}", error.what()));
    }
    ++progress->counts[static_cast<std::size_t>(verdict.outcome)];
    if (verdict.outcome == Outcome::wrong) report(kind, verdict.why);
  }
  progress->is_over = true;
  std::fflush(stdout);
  ::_exit(0);
}

/// Returns the status of a child that injects the faults from progress->next on.
int status_of_child(const std::string& kind, const Seeds& seeds,
                    const std::function<Verdict(std::uint64_t)>& fault) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) run_child(kind, seeds, fault);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

class Table : public doctest::IReporter {
 public:
  explicit Table(const doctest::ContextOptions& options) : options_(options) {}

  void test_run_end(const doctest::TestRunStats&) override {
    if (rows().empty()) return;
    Row sum{.kind = "all"};
    line("fault", "faults", "healed", "refused", "wrong", "crashed", "hung");
    for (const Row& row : rows()) {
      line(row);
      for (std::size_t i = 0; i < sum.counts.size(); ++i) sum.counts[i] += row.counts[i];
      sum.crashed += row.crashed;
      sum.hung += row.hung;
    }
    line(sum);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  static constexpr int kName = 28, kCell = 7;  ///< characters

  template <class... Cells>
  void line(const std::string& kind, const Cells&... cells) {
    *options_.cout << fmt::format("{:<{}}", kind, kName);
    ((*options_.cout << fmt::format(" {:>{}}", cells, kCell)), ...);
    *options_.cout << '\n';
  }
  void line(const Row& row) {
    const auto& [healed, refused, is_wrong, none] = row.counts;
    line(row.kind, healed + refused + is_wrong + row.crashed + row.hung, healed, refused, is_wrong,
         row.crashed, row.hung);
  }

  const doctest::ContextOptions& options_;
};
DOCTEST_REGISTER_LISTENER("table_of_faults", 2, Table);

}  // namespace

Verdict worse(const Verdict& a, const Verdict& b) {
  const auto rank = [](const Verdict& verdict) {
    return verdict.outcome == Outcome::none ? 0 : 1 + int(verdict.outcome);
  };
  return rank(a) >= rank(b) ? a : b;
}

void describe(const std::string& fault) {
  const std::size_t length = std::min(fault.size(), progress->fault.size() - 1);
  std::memcpy(progress->fault.data(), fault.data(), length);
  progress->fault[length] = '\0';
}

bool injects_all() {
  const char* value = std::getenv("FA2_FAULTS");
  return value != nullptr && std::strcmp(value, "all") == 0;
}

Seeds random_seeds(std::uint64_t part, std::uint64_t all) {
  return {0, injects_all() ? all : part, 1};
}
Seeds every(std::uint64_t count, std::uint64_t step) {
  return {0, count, injects_all() ? 1 : step};
}

void inject(const std::string& kind, const Seeds& given, const std::function<Verdict(std::uint64_t)>& fault) {
  if (::access("/dev/shm", W_OK) == 0)
    ::setenv("TMPDIR", "/dev/shm", 0);  // in memory, without waiting for a disk
  Seeds seeds = given;
  if (std::getenv("FA2_FAULT_SEED") != nullptr || std::getenv("FA2_FAULT_COUNT") != nullptr) {
    seeds.first = number_from("FA2_FAULT_SEED", 0);
    seeds.step = 1;
    seeds.end = seeds.first + number_from("FA2_FAULT_COUNT", given.end);
  }
  void* const memory =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  progress = new (memory) Progress;
  progress->next = seeds.first;
  Row row{.kind = kind};
  while (!progress->is_over && row.crashed + row.hung < kMostFailures) {
    const int status = status_of_child(kind, seeds, fault);
    if (progress->is_over) break;
    const bool hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    report(kind, hung ? fmt::format("hung for {} s", kSeconds)
                      : fmt::format("crashed with wait status {}", status));
    ++(hung ? row.hung : row.crashed);
    progress->next += seeds.step;
  }
  row.counts = progress->counts;
  add(row);
  ::munmap(memory, sizeof(Progress));
  progress = nullptr;
  CAPTURE(kind);
  CHECK(row.counts[static_cast<std::size_t>(Outcome::wrong)] == 0);
  CHECK(row.crashed == 0);
  CHECK(row.hung == 0);
}

}  // namespace fa2::test
