// A file of records in the form in which they ship, as fa2 tune --records writes it.
#include <doctest/doctest.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>
#include <tests/support/tuning_record.h>
#include <tools/record_file.h>

#include <string>

using namespace fa2;
using namespace fa2::test;
using tools::add_record;
using tools::read_records;

namespace {

std::string line(const TuningRecord& made) {
  return to_json_line(made) + "\n";
}

}  // namespace

TEST_CASE("record file: sorted for readers, by device, whatever the order of adding") {
  const TemporaryDirectory dir;
  TuningRecord other_gpu = record("f16_d128_none"), more_heads = record();
  other_gpu.device = "GPU B";
  more_heads.bucket.heads_log2 = 7;
  const TuningRecord wide = record("f16_d128_none"), longer = record("f16_d64_none", 11),
                     bf16 = record("bf16_d256_none");
  TuningRecord dq = record("bf16_d256_none");
  dq.config.kernel = KernelId::backward_dq_sm80;
  dq.bucket.pass = KernelPass::dq;
  for (const TuningRecord& each : {other_gpu, wide, dq, longer, more_heads, bf16, record()})
    add_record(dir / "r", each);
  CHECK(read_text(dir / "r") == line(bf16) + line(record()) + line(more_heads) + line(longer) + line(wide) +
                                    line(dq) + line(other_gpu));
  CHECK(read_records(dir / "r").size() == 7);
}

TEST_CASE("record file: a new record replaces the one of its bucket, and other lines keep their text") {
  const TemporaryDirectory dir;
  std::string other = to_json_line(record("f16_d128_none"));
  other.insert(1, R"("of a later version": 1, )");
  write_text(dir / "r",
             other + "\n\n" + line(record("f16_d64_none", 10, 80)) + line(record("f16_d64_none", 10, 85)));
  CHECK(read_records(dir / "r").front().us == 85);  // the last of a bucket counts, as in a store
  add_record(dir / "r", record("f16_d64_none", 10, 95));
  CHECK(read_text(dir / "r") == line(record("f16_d64_none", 10, 95)) + other + "\n");
}

TEST_CASE(
    "record file: none without records; a file with other content stays, and the error names the line") {
  const TemporaryDirectory dir;
  CHECK(read_records(dir / "none").empty());
  const std::string text = line(record()) + "# Notes\n";
  write_text(dir / "r", text);
  const std::string where = (dir / "r").string() + ":2 = \"# Notes\", must be a tuning record";
  CHECK_THROWS_WITH_AS(read_records(dir / "r"), doctest::Contains(where.c_str()), InvalidRequest);
  CHECK_THROWS_AS(add_record(dir / "r", record("f16_d128_none")), InvalidRequest);
  CHECK(read_text(dir / "r") == text);
  CHECK_THROWS_AS(add_record(dir / "none" / "r", record()), FileError);
}

TEST_CASE("record file: its mode is kept") {
  const TemporaryDirectory dir;
  add_record(dir / "r", record());
  std::filesystem::permissions(dir / "r", std::filesystem::perms(0640));
  add_record(dir / "r", record("f16_d128_none"));
  CHECK(mode_of(dir / "r") == 0640);
}
