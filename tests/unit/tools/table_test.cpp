// Aligned tables, labelled lines, sizes and progress lines.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <tools/progress.h>
#include <tools/table.h>
#include <tools/wrap.h>

#include <string>
#include <vector>

using namespace fa2::tools;

TEST_CASE("table: columns are as wide as their widest cell, and numbers are right-aligned") {
  Table table({{"name"}, number("us"), {"note"}});
  table.add({"a", "9.5", ""});
  table.add({"longer", "1234.0", "x"});
  CHECK(table.text() ==
        "name        us  note\n"
        "a          9.5\n"
        "longer  1234.0  x\n");
}

TEST_CASE("table: without rows there is a header, bold on request") {
  const Table table({{"one"}, number("two")});
  CHECK(table.text() == "one  two\n");
  CHECK(table.text(true) == "\x1b[1mone  two\x1b[0m\n");
}

TEST_CASE("table: cells cannot break the layout") {
  Table table({{"text"}, {"end"}});
  table.add({"two\nlines", "\x1b[31mred"});
  CHECK(table.text() == "text       end\ntwo lines   [31mred\n");
  CHECK_THROWS_AS(table.add({"too few"}), fa2::Error);
}

TEST_CASE("table: UTF-8 counts characters, not bytes") {
  Table table({{"path"}, {"end"}});
  table.add({"\xc3\xa9\xc3\xa9", "x"});
  table.add({"abcd", "y"});
  CHECK(table.text() == "path  end\n\xc3\xa9\xc3\xa9    x\nabcd  y\n");
}

TEST_CASE("labelled lines: values below each other, empty ones left out, continuations indented") {
  CHECK(text(Lines{{"a", "1"}, {"unused label", ""}, {"long", "2\n3"}}) == "a     1\nlong  2\n      3\n");
}

TEST_CASE("wrapped: at spaces, else behind punctuation, else anywhere; characters count, not bytes") {
  using Parts = std::vector<std::string>;
  CHECK(wrapped("short", 5) == Parts{"short"});
  CHECK(wrapped("", 5) == Parts{""});
  CHECK(wrapped("two words", 8) == Parts{"two", "words"});
  CHECK(wrapped("two words", 3) == Parts{"two", "wor", "ds"});
  CHECK(wrapped("one\ntwo three\n", 5) == Parts{"one", "two", "three", ""});
  CHECK(wrapped("tile_m=128,tile_n=64", 12) == Parts{"tile_m=128,", "tile_n=64"});
  CHECK(wrapped("  indented words", 10) == Parts{"  indented", "  words"});
  CHECK(wrapped("abcdef", 4) == Parts{"abcd", "ef"});
  CHECK(wrapped("\xc3\xa9\xc3\xa9\xc3\xa9", 2) == Parts{"\xc3\xa9\xc3\xa9", "\xc3\xa9"});
  CHECK(hanging("one two three", 9, 2) == "one two\n  three");
  CHECK(hanging("one two three", kAnyWidth, 2) == "one two three");
}

TEST_CASE("table: one that is too wide has its details below the rows, and breaks rows between cells") {
  Table table({{"key"}, number("us"), detail("config")});
  table.add({"a1", "3", "tile_m=128,tile_n=64"});
  table.add({"b2", "10", ""});
  CHECK(table.text(false, 32) ==
        "key  us  config\n"
        "a1    3  tile_m=128,tile_n=64\n"
        "b2   10\n");
  CHECK(table.text(false, 26) ==
        "key  us\n"
        "a1    3\n"
        "    config  tile_m=128,\n"
        "            tile_n=64\n"
        "b2   10\n");
  Table wide({{"first"}, {"second"}, number("third")});
  wide.add({"aaaaaaaa", "bbbbbbbb", "1"});
  CHECK(wide.text(false, 20) ==
        "first     second\n"
        "    third\n"
        "aaaaaaaa  bbbbbbbb\n"
        "        1\n");
}

TEST_CASE("labelled lines: values that are too long continue below their beginning") {
  CHECK(text(Lines{{"a", "1"}, {"long", "one two three four five"}}, 20) ==
        "a     1\n"
        "long  one two three\n"
        "      four five\n");
}

TEST_CASE("sizes in powers of 1024") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1024) == "1.0 KB");
  CHECK(bytes_text(77'000) == "75.2 KB");
  CHECK(bytes_text((1u << 20) - 1) == "1.0 MB");
  CHECK(bytes_text(std::uint64_t{80} << 30) == "80.0 GB");
  CHECK(bytes_text(std::uint64_t{5000} << 40) == "5000.0 TB");
}

TEST_CASE("times in a unit that people would use") {
  CHECK(duration_text(0) == "0 s");
  CHECK(duration_text(99.4) == "99 s");
  CHECK(duration_text(100) == "2 min");
  CHECK(duration_text(14.4 * 60) == "14 min");
  CHECK(duration_text(9000) == "2.5 h");
  CHECK(us_text(436.84) == "436.8");
  CHECK(us_text(0) == "-");
}

TEST_CASE("progress: count, rate and time left") {
  CHECK(progress_line("compiling", 0, 24, 0, "") == "compiling 0/24");
  CHECK(progress_line("compiling", 6, 24, 2, "x") == "compiling 6/24, 3/s, 6 s left: x");
  CHECK(progress_line("compiling", 24, 24, 9, "") == "compiling 24/24, 2.67/s, 0 s left");
  CHECK(progress_line("measuring", 0, 0, 0, "") == "measuring");
}
