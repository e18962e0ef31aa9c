// Foreign text in messages: valid UTF-8, bounded, and with suggestions.
#include <core/text.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>

#include <string>
#include <string_view>
#include <vector>

using namespace fa2;

TEST_CASE("text: UTF-8 stays as it is, up to the largest code point") {
  for (const std::string text : {"", "plain", "tab\tand\nnewline", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                 "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    CAPTURE(text);
    CHECK(printable(text, 100) == text);
  }
}

TEST_CASE("text: bytes that are not UTF-8, and control characters, are escaped one by one") {
  CHECK(printable("a\x80z", 100) == "a\\x80z");                // a continuation without a start
  CHECK(printable("\xc0\xaf", 100) == "\\xc0\\xaf");           // overlong
  CHECK(printable("\xe0\x9f\xbf", 100) == "\\xe0\\x9f\\xbf");  // overlong
  CHECK(printable("\xf0\x8f\xbf\xbf", 100) == "\\xf0\\x8f\\xbf\\xbf");
  CHECK(printable("\xed\xa0\x80", 100) == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(printable("\xf4\x90\x80\x80", 100) == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  CHECK(printable("\xf5", 100) == "\\xf5");
  CHECK(printable("\xe2\x82", 100) == "\\xe2\\x82");  // cut off
  CHECK(printable("\xc3"
                  "a",
                  100) ==
        "\\xc3"
        "a");
  CHECK(printable("\x1b[31m\x7f", 100) == "\\x1b[31m\\x7f");
  CHECK(printable(std::string_view("\0", 1), 100) == "\\x00");
}

TEST_CASE("text: text that is too long is cut between characters, and its length is given") {
  CHECK(printable("12345678", 8) == "12345678");
  CHECK(printable(std::string(1 << 20, 'x'), 10) == "xxxxxxxxxx... (1048576 bytes)");
  const std::string euros = printable("\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 8);
  CHECK(euros == "\xe2\x82\xac\xe2\x82\xac... (12 bytes)");
  CHECK(in_quotes(std::string(5000, '\xff')).size() < 250);
}

TEST_CASE("text: the nearest word, if one is near") {
  const std::vector<std::string_view> verbs = {"info", "run", "bench", "tune", "precompile"};
  CHECK(nearest("rnu", verbs) == "run");
  CHECK(nearest("precompiel", verbs) == "precompile");
  CHECK(nearest("perkompile", verbs) == "precompile");
  CHECK(nearest("fly", verbs) == "");
  CHECK(nearest("", verbs) == "");
  CHECK(nearest(std::string(1 << 20, 'r'), verbs) == "");
}

TEST_CASE("text: errors are UTF-8 and bounded, whatever a setting holds") {
  const std::string junk(1 << 20, '\xff');
  const Error error(ErrorCode::cache, "cannot open " + junk);
  CHECK(std::string(error.what()).find("cannot open \\xff\\xff") == 0);
  CHECK(std::string(error.what()).size() < 66000);

  const InvalidRequest invalid(
      {{"first", junk, "must be short"}, {junk, "1", "must be named"}, {"last", "2", "x"}});
  const std::string text = invalid.what();
  CHECK(text.size() < 2000);
  CHECK(text.find("... (1048576 bytes), must be short") != std::string::npos);
  CHECK(text.find("last = 2, x") != std::string::npos);
  CHECK(invalid.violations()[0].value == junk);

  const InvalidRequest many(std::vector<Violation>(5000, Violation{"f", "v", "must not be"}));
  CHECK(std::string(many.what()).find("and 4900 more") != std::string::npos);
}
