// Dropout on the host: Philox against published words, the rules of its numbers, the kernels' parameters.
#include <doctest/doctest.h>
#include <fa2/c_dropout.h>
#include <operation/operands/operands.h>
#include <operation/rules/validate.h>
#include <planning/attention_params.h>
#include <planning/dropout_mask.h>
#include <planning/dropout_stream.h>
#include <reference/dropout.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace fa2;

namespace {

AttentionProblem problem() {
  AttentionProblem p;
  p.head_dim = 64;
  p.seqlen_q = p.seqlen_k = 16;
  p.dropout = true;
  return p.normalized();
}

/// Returns what is wrong with dropout's numbers.
std::string broken(const Dropout& dropout, bool has_dropout = true) {
  AttentionProblem p = problem();
  p.dropout = has_dropout;
  std::vector<std::uint16_t> tensors(4 * 16 * 64);
  AttentionArgs args =
      bshd_args(p, tensors.data(), tensors.data(), tensors.data(), tensors.data() + 3 * 16 * 64);
  args.dropout = dropout;
  std::string text;
  for (const Violation& violation : violations_of({p, {RowAlignment::element}}, args))
    text += (text.empty() ? "" : "; ") + to_string(violation);
  return text;
}

DropoutParams params_of(const Dropout& dropout) {
  AttentionArgs args;
  args.dropout = dropout;
  AttentionParams params{};
  add_call(params, problem(), args);
  return params.dropout;
}

}  // namespace

// Random123 publishes these words.
TEST_CASE("reference: Philox yields the published words") {
  using reference::philox;
  using Words = reference::PhiloxWords;
  constexpr std::uint32_t kOnes = 0xffffffff;
  CHECK(philox({0, 0, 0, 0}, {0, 0}, 7) == Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
  CHECK(philox({0, 0, 0, 0}, {0, 0}, 10) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}, 10) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, 10) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("dropout: a launch's stream is the first words of a Philox call") {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{0x299f31d0a4093822}}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
      const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
      const auto words =
          reference::philox({low(offset), low(offset >> 32), 0, 0}, {low(seed), low(seed >> 32)}, 10);
      CHECK(dropout_stream(seed, offset) == DropoutStream{words[0], words[1]});
    }
  }
}

TEST_CASE("dropout: the kept share is exact to 2^-32, and kept values are divided by it") {
  CHECK(params_of({0.0f}).threshold == 0);
  CHECK(params_of({0.0f}).rescale == 1.0f);
  CHECK(params_of({0.5f}).threshold == 0x80000000u);
  CHECK(params_of({0.5f}).rescale == 2.0f);
  CHECK(params_of({0x1p-32f}).threshold == 1);
  CHECK(params_of({1 - 0x1p-24f}).threshold == 0xffffff00u);
  CHECK(params_of({1 - 0x1p-24f}).rescale == 0x1p24f);
  CHECK(params_of({0.1f}).threshold == static_cast<unsigned>(std::lround(double{0.1f} * 0x1p32)));
  const std::uint64_t state[2] = {};
  CHECK(params_of({0.5f, 0, 0, state}).state == static_cast<const void*>(state));
  CHECK(params_of({0.5f, 7, 9}).stream[0] == dropout_stream(7, 9)[0]);
  CHECK(params_of({0.5f, 7, 9}).stream[1] == dropout_stream(7, 9)[1]);
}

TEST_CASE("dropout: contradictory or missing numbers are rejected") {
  alignas(8) const std::uint64_t state[3] = {};
  const auto* const misaligned =
      reinterpret_cast<const std::uint64_t*>(reinterpret_cast<const char*>(state) + 4);
  CHECK(broken({0.0f}) == "");
  CHECK(broken({0.1f, 1, 2}) == "");
  CHECK(broken({0.1f, 0, 0, state}) == "");
  CHECK(broken({1.0f}).starts_with("dropout.probability = 1, must be at least 0 and less than 1"));
  CHECK(broken({-0.5f}).starts_with("dropout.probability = -0.5, must be at least 0"));
  CHECK(broken({std::nanf("")}).starts_with("dropout.probability = nan, must be at least 0"));
  CHECK(broken({0.1f, 1, 0, state}).starts_with("dropout.state = given, must be null, or seed and offset 0"));
  CHECK(broken({0.1f, 0, 1, state}).starts_with("dropout.state = given, must be null, or seed and offset 0"));
  CHECK(broken({0.1f, 0, 0, misaligned}).find("must be a multiple of 8 bytes") != std::string::npos);
  CHECK(broken({}, false) == "");
  for (const Dropout& idle : {Dropout{0.1f}, Dropout{0, 1}, Dropout{0, 0, 1}, Dropout{0, 0, 0, state}})
    CHECK(broken(idle, false) ==
          "dropout = given, must be as it is by default, or the problem's dropout true");
}

TEST_CASE("dropout: the state is an operand if there is dropout") {
  const std::uint64_t state[2] = {};
  AttentionArgs args;
  args.dropout.state = state;
  const Operand given = operands_of(problem(), args)[Role::dropout_state];
  CHECK_FALSE(given.is_absent());
  CHECK(size_in_bytes(given) == 16);
  CHECK(given.least_alignment() == 8);
  CHECK_FALSE(given.is_written());
  CHECK(operands_of(problem(), {})[Role::dropout_state].is_absent());
}

TEST_CASE("dropout: a mask needs an output, and a problem with dropout") {
  std::uint8_t mask = 0;
  const std::uint64_t state[2] = {};
  CHECK(violations_of_dropout_mask(problem(), {{0.1f, 0, 0, state}, &mask}).empty());
  CHECK(violations_of_dropout_mask(problem(), {{1.5f}, nullptr}).size() == 2);
  AttentionProblem without = problem();
  without.dropout = false;
  CHECK(to_string(violations_of_dropout_mask(without, {{}, &mask}).at(0)) ==
        "dropout = false, must be true: there is no mask without");
}

TEST_CASE("dropout: a mask's call lists what is wrong with the problem and with the arguments") {
  AttentionProblem wrong = problem();
  wrong.head_dim = 7;
  try {
    dropout_mask(wrong, {1.5f}, nullptr);
    FAIL("a head dim of 7 is accepted");
  } catch (const InvalidRequest& error) {
    std::string fields;
    for (const Violation& violation : error.violations()) fields += violation.field + " ";
    CHECK(fields.find("head_dim") == 0);
    CHECK(fields.find("probability") != std::string::npos);
    CHECK(fields.find("mask") != std::string::npos);
  }
}

TEST_CASE("c api: dropout's numbers arrive, and reserved fields must be 0") {
  fa2_problem c = FA2_PROBLEM_INIT;
  c.head_dim = 64;
  c.seqlen_q = c.seqlen_k = 16;
  c.dropout = 1;
  fa2_args args = FA2_ARGS_INIT;
  args.dropout_probability = 2;
  args.dropout_seed = 3;
  args.reserved = 1;
  CHECK(fa2_dropout_mask(nullptr, &c, &args, nullptr, nullptr) == FA2_INVALID_REQUEST);
  CHECK(std::string(fa2_last_error()).find("reserved = 1, must be 0") != std::string::npos);
  args.reserved = 0;
  CHECK(fa2_dropout_mask(nullptr, &c, &args, nullptr, nullptr) == FA2_INVALID_REQUEST);
  for (const char* part : {"dropout.probability = 2", "mask = null"})
    CHECK(std::string(fa2_last_error()).find(part) != std::string::npos);
}
