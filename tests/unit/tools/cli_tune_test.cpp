// fa2 tune over many problems, as a user runs it without a GPU.
#include <doctest/doctest.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/command.h>
#include <tools/tuning_matrix.h>

#include <string>

#ifdef FA2_COMMAND

using namespace fa2::test;

TEST_CASE("cli: tune --dry-run lists the matrix, in a form that --matrix reads") {
  const Command fa2;
  const Result list = fa2.run("tune --matrix standard --dry-run");
  CHECK(list.status == 0);
  CHECK(list.out.starts_with("[1/108] f16 d64 none batch 32 heads 32/32 seqlen 512x512\n[2/108] "));
  CHECK(list.out.find("d128 causal_bottom_right window_left 1024 ") != std::string::npos);

  const Json points = fa2.run("tune --matrix standard --dry-run --json").json().at("points");
  REQUIRE(points.size() == fa2::tools::standard_matrix().size());
  CHECK(points[0].at("skipped") == "");
  std::string lines;
  for (const Json& point : points) lines += point.at("problem").dump() + "\n";
  write_text(fa2.file("problems"), lines);
  CHECK(fa2.run("tune --dry-run" + fa2.option("--matrix", "problems")).out == list.out);
}

TEST_CASE("cli: tune --matrix says what is wrong before it looks for a GPU, then that there is none") {
  const Command fa2;
  const std::string standard = "tune --matrix standard", records = fa2.option("--records", "records");
  CHECK(fa2.run(standard).says("no GPU was found"));
  const Result none = fa2.run(standard + " --all --json" + records);
  CHECK(none.status == 1);
  CHECK(none.json().at("error").get<std::string>().find("no GPU was found") == 0);
  CHECK_FALSE(std::filesystem::exists(fa2.file("records")));
  CHECK(fa2.run(standard + " --device interpreter").says("this measures a GPU"));

  write_text(fa2.file("records"), "# Notes\n");
  CHECK(fa2.run(standard + records).says("records:1 = \"# Notes\", must be a tuning record"));
  CHECK(fa2.run("tune" + records).says("records:1"));
  CHECK(read_text(fa2.file("records")) == "# Notes\n");
  CHECK(fa2.run(standard + fa2.option("--records", "none/records")).says("none/records: No such file"));
  write_text(fa2.file("problems"), "{\"head_dims\":64}\n");
  const Result wrong = fa2.run("tune --dry-run" + fa2.option("--matrix", "problems"));
  CHECK(wrong.status == 1);
  CHECK(wrong.says("problems:1: head_dims = 64, must be a field of a problem: did you mean head_dim?"));
}

TEST_CASE("cli: tune --backward lists the same matrix, and needs a GPU as well") {
  const Command fa2;
  CHECK(fa2.run("tune --help").out.find("tune --backward --head-dim 128") != std::string::npos);
  CHECK(fa2.run("tune --backward --matrix standard --dry-run").out ==
        fa2.run("tune --matrix standard --dry-run").out);
  for (const std::string words : {"", " --matrix standard"}) {
    CHECK(fa2.run("tune --backward" + words).says("no GPU was found"));
    CHECK(fa2.run("tune --backward --device interpreter" + words).says("this measures a GPU"));
  }
}

TEST_CASE("cli: tune takes one problem or a matrix") {
  const Command fa2;
  for (const char* arguments :
       {"tune --matrix standard --head-dim 64", "tune --matrix standard --causal", "tune --matrix standards",
        "tune --dry-run", "tune --matrix .", "tune --records"}) {
    CAPTURE(arguments);
    const Result result = fa2.run(arguments);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
  }
  CHECK(fa2.run("tune --head-dim 64 --matrix standard --dry-run").says("--matrix excludes --head-dim"));
  CHECK(fa2.run("tune --matrix standards").says("\"standards\", must be a file or standard"));
}

#endif
