// KernelConfig as a value: comparison, text and back.
#include <doctest/doctest.h>
#include <fa2/config.h>
#include <fa2/errors.h>

#include <string>

using namespace fa2;

namespace {

/// The message of the error that parsing throws; empty if it throws none.
std::string error_of(std::string_view text) {
  try {
    parse_config(text);
  } catch (const InvalidRequest& error) {
    return error.what();
  }
  return "";
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("config: text in field order, and back") {
  KernelConfig config;
  config.tile_m = 64;
  config.q_in_registers = 1;
  const std::string text = to_string(config);
  CHECK(text.rfind("mainloop=80,tile_m=64,tile_n=", 0) == 0);
  CHECK(mentions(text, ",q_in_registers=1,"));
  CHECK(parse_config(text) == config);
}

TEST_CASE("config: every field is compared, printed and parsed") {
  int fields = 0;
  KernelConfig probe;
  KernelConfig::visit(probe, [&](std::string_view name, std::int32_t& value) {
    const std::int32_t before = value;
    value = before + 17;
    CHECK(probe != KernelConfig{});
    CHECK(parse_config(to_string(probe)) == probe);
    CHECK(parse_config(std::string(name) + "=" + std::to_string(before + 17)) == probe);
    value = before;
    ++fields;
  });
  CHECK(fields >= 7);
  CHECK(probe == KernelConfig{});
}

TEST_CASE("config: only the tunables of its main loop are printed; a text of all fields still parses") {
  CHECK(to_string(default_config(80)) ==
        "mainloop=80,tile_m=64,tile_n=32,warps=4,stages=1,q_in_registers=0,ctas_per_sm=1");
  CHECK(to_string(default_config(90)) ==
        "mainloop=90,tile_m=128,tile_n=64,warps=8,stages=2,ctas_per_sm=1,q_buffers=1,schedule=0,overlap=0,"
        "pingpong=0,"
        "speculative_max=0,skip_masked=0,packed_heads=1");
  for (const std::int32_t mainloop : {80, 90, 70}) {
    const KernelConfig config = default_config(mainloop);
    std::string every_field;
    KernelConfig::visit(config, [&](const std::string& name, std::int32_t value) {
      every_field += (every_field.empty() ? "" : ",") + name + "=" + std::to_string(value);
    });
    CHECK(parse_config(every_field) == config);
    CHECK(parse_config(to_string(config)) == config);
    CHECK((to_string(config) == every_field) == (mainloop == 70));
  }
  KernelConfig odd;  // refused where it is to run, and printed as it is
  odd.q_buffers = 2;
  CHECK(mentions(to_string(odd), ",q_buffers=2"));
}

TEST_CASE("config: fields left out are the defaults of the main loop that is named") {
  CHECK(parse_config("") == KernelConfig{});
  KernelConfig expected;
  expected.stages = 3;
  CHECK(parse_config("stages=3") == expected);
  CHECK(parse_config("mainloop=80") == default_config(80));
  CHECK(parse_config("mainloop=90") == default_config(90));
  KernelConfig hopper = default_config(90);
  hopper.tile_n = 96;
  CHECK(parse_config("tile_n=96,mainloop=90") == hopper);
  CHECK(parse_config("pass=2") == default_config(80, 2));
  CHECK(to_string(default_config(80, 2)).starts_with("mainloop=80,pass=2,tile_m="));
  CHECK(to_string(default_config(80)).find("pass") == std::string::npos);
}

TEST_CASE("config: errors name the field and the value") {
  CHECK(mentions(error_of("tile_q=3"),
                 "\"tile_q\" = \"3\", must be one of the tunables mainloop, pass, tile_m, tile_n"));
  CHECK(mentions(error_of("tile_m=12x"), "\"tile_m\" = \"12x\", must be a decimal integer"));
  CHECK(mentions(error_of("tile_m="), "\"tile_m\" = \"\", must be a decimal integer"));
  CHECK(mentions(error_of("tile_m"), "\"tile_m\" = \"\", must be a decimal integer"));
  CHECK(mentions(error_of("tile_m=4294967296"), "32 bits"));
  CHECK(mentions(error_of("tile_m=64,tile_m=64"), "must be given only once"));
  CHECK(mentions(error_of("tile_m=64,"), "config field \"\""));
  CHECK(mentions(error_of(" tile_m=64"), "\" tile_m\""));
  const std::string all = error_of("a=1,tile_n=x,warps=4,warps=8");
  CHECK(mentions(all, "3 rules broken"));
}
