// KernelConfig as a value: comparison, text and back.
#include <doctest/doctest.h>
#include <fa2/config.h>
#include <fa2/errors.h>

#include <string>

using namespace fa2;

namespace {

/// Returns the message of the error that parsing throws; empty if it throws none.
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
  CHECK(text.rfind("kernel=forward_sm80,tile_m=64,tile_n=", 0) == 0);
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

TEST_CASE("config: only the kernel's own tunables are printed; a text with all fields still parses") {
  CHECK(to_string(default_config(KernelId::forward_sm80)) ==
        "kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=1,q_in_registers=0,ctas_per_sm=1");
  CHECK(to_string(default_config(KernelId::forward_sm90)) ==
        "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=2,ctas_per_sm=1,q_buffers=1,schedule=0,"
        "overlap=0,pingpong=0,speculative_max=0,skip_masked=0");
  for (const KernelId kernel : {KernelId::forward_sm80, KernelId::forward_sm90, KernelId::append}) {
    const KernelConfig config = default_config(kernel);
    std::string every_field = "kernel=" + std::string(to_string(kernel));
    KernelConfig::visit(config, [&](const std::string& name, std::int32_t value) {
      every_field += "," + name + "=" + std::to_string(value);
    });
    CHECK(parse_config(every_field) == config);
    CHECK(parse_config(to_string(config)) == config);
    CHECK(to_string(config).size() < every_field.size());
  }
  KernelConfig odd;  // rejected when it is to run, but printed as it is
  odd.q_buffers = 2;
  CHECK(mentions(to_string(odd), ",q_buffers=2"));
}

TEST_CASE("config: missing fields have the defaults of the named kernel") {
  CHECK(parse_config("") == KernelConfig{});
  KernelConfig expected;
  expected.stages = 3;
  CHECK(parse_config("stages=3") == expected);
  CHECK(parse_config("kernel=forward_sm80") == default_config(KernelId::forward_sm80));
  KernelConfig hopper = default_config(KernelId::forward_sm90);
  hopper.tile_n = 96;
  CHECK(parse_config("tile_n=96,kernel=forward_sm90") == hopper);
  CHECK(to_string(default_config(KernelId::backward_dq_sm80)).starts_with("kernel=backward_dq_sm80,tile_m="));
}

TEST_CASE("config: errors name the field and the value") {
  CHECK(
      mentions(error_of("tile_q=3"), "\"tile_q\" = \"3\", must be one of the fields kernel, tile_m, tile_n"));
  CHECK(mentions(error_of("kernel=sm90"),
                 "\"kernel\" = \"sm90\", must be one of the kernels forward_sm80, forward_split, "));
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
