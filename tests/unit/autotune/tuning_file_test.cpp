// The file of tuning records, where something else has its name.
#include <autotune/tuning_store.h>
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <tests/support/captured_log.h>
#include <tests/support/temporary_directory.h>
#include <tests/support/tuning_record.h>

using namespace fa2;
using namespace fa2::test;

TEST_CASE("a record is not written to a pipe, which would lose it, and one warning says so") {
  const TemporaryDirectory directory;
  const CapturedLog log;
  const auto file = directory / "records.jsonl";
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  TuningStore store(file);
  store.add(record());
  store.add(record());
  CHECK(store.records().size() == 2);
  CHECK(log.has("tuning records are not kept on disk: cannot append to " + file.native()));
  CHECK(log.lines() == 2);  // one on reading, one on writing
}
