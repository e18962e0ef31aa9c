// scripts/check_links.py finds broken links.
#include <doctest/doctest.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include <cstdlib>
#include <string>

using namespace fa2::test;

TEST_CASE("links to missing files and headings are found, and no others") {
  const TemporaryDirectory dir;
  const std::string page = (dir / "page.md").native(), out = (dir / "out").native();
  write_text(dir / "docs/other.md", "# `fa2 run`: one call\n```\n# no heading\n```\n## Twice\n## Twice\n");
  write_text(page,
             "[a](docs/other.md) and ![b](docs/none.svg)\n"
             "[web](https://example.com/none), [c](docs/other.md#fa2-run-one-call), [d](#below)\n"
             "`[code](none.md)`\n```\n[block](none.md)\n```\n"
             "[e](docs/other.md#no-heading), [f](docs/other.md#twice-1)\n<img src=\"none.png\">\n## Below\n");
  CHECK(std::system(("python3 -B " FA2_SOURCE_DIR "/scripts/check_links.py " + page + " >" + out).c_str()) !=
        0);
  CHECK(read_text(out) ==
        page + ":1: docs/none.svg\n" + page + ":7: docs/other.md#no-heading\n" + page + ":8: none.png\n");
}
