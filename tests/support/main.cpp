// The main function of every doctest binary. It distinguishes cases that could not run from those that
// passed.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstring>
#include <ostream>

namespace {

/// Counts cases that log "skipped: <why>" because this machine cannot run them; for doctest they have passed.
/// Prints "skipped here: N" at the end, for scripts/run_tests.sh.
class SkippedCases : public doctest::IReporter {
 public:
  explicit SkippedCases(const doctest::ContextOptions& options) : options_(options) {}

  void log_message(const doctest::MessageData& message) override {
    if (std::strncmp(message.m_string.c_str(), "skipped: ", 9) == 0) said_so_ = true;
  }
  void test_case_start(const doctest::TestCaseData&) override { said_so_ = false; }
  void test_case_end(const doctest::CurrentTestCaseStats& ended) override {
    if (said_so_ && ended.testCaseSuccess) ++skipped_;
  }
  void test_run_end(const doctest::TestRunStats&) override {
    if (skipped_ > 0) *options_.cout << "skipped here: " << skipped_ << std::endl;
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}  // skipped by a filter

 private:
  const doctest::ContextOptions& options_;
  bool said_so_ = false;
  int skipped_ = 0;
};

DOCTEST_REGISTER_LISTENER("skipped_cases", 1, SkippedCases);

}  // namespace
