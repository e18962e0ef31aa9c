// What append() writes is what attention reads.
#include <doctest/doctest.h>
#include <generator/kernels/rules.h>
#include <generator/key_value_format.h>
#include <planning/append.h>

#include <vector>

using namespace fa2;

TEST_CASE("key/value format: K and V of attention and the cache of append() have its element type") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const AttentionProblem problem{.dtype = dtype, .head_dim = 64, .head_dim_v = 40};
    const AppendProblem appended{.dtype = dtype, .head_dim = 64, .head_dim_v = 40, .cache_rows = 8};
    const ElementType element = key_value_format(problem).element;
    CHECK(element == element_of(dtype));
    CHECK(key_value_format(appended).element == element);
    const Operands operands = operands_of(problem, AttentionArgs{});
    CHECK(operands[Role::k].element == element);
    CHECK(operands[Role::v].element == element);
    for (const Operand& operand : operands_of(appended, AppendArgs{}))
      if (operand.name.ends_with("_cache")) CHECK(operand.element == element);
  }
}

TEST_CASE("key/value format: bytes of a key in memory, and of a row in shared memory") {
  const AttentionProblem narrow{.head_dim = 72, .head_dim_v = 40}, square{.head_dim = 64};
  CHECK(key_value_format(narrow).bytes_per_key() == 2 * (72 + 40));
  CHECK(key_value_format(square).bytes_per_key() == 2 * (64 + 64));
  const AttentionTraits traits = traits_of({narrow, {}});
  CHECK(row_bytes(traits, Side::q) == 2 * 80);
  CHECK(row_bytes(traits, Side::k) == 2 * 80);
  CHECK(row_bytes(traits, Side::v) == 2 * 48);
  CHECK(row_bytes(traits, Side::o) == 2 * 48);
  CHECK(key_value_row_bytes(traits) == 2 * (80 + 48));
}
