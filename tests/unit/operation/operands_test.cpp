// What is said once of an operand holds everywhere: these cases go over the list.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <operation/operands/operands.h>
#include <operation/operands/overlap.h>
#include <operation/rules/validate.h>

#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

using namespace fa2;

namespace {

AttentionProblem problem() {
  AttentionProblem p;
  p.head_dim = 64;
  p.head_dim_v = 32;
  p.batch = 5;
  p.heads_q = 8;
  p.heads_kv = 2;
  p.seqlen_q = 16;
  p.seqlen_k = 24;
  AttentionProblem::visit(
      [](const char* name, FieldRole, auto& value) {  // all tensors are used
        for (const Tensor& tensor : kAttentionTable.tensors)
          if constexpr (std::is_same_v<decltype(value), bool&>)
            value |= std::string_view(tensor.text.used_if) == name;
      },
      p);
  p.total_q = 60;
  p.total_k = 100;
  p.page_size = 8;  // no problem has both; operands are listed all the same
  p.page_count = 5;
  return p;
}

const void* at(std::uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

/// Contiguous tensors, each in 16 MB of its own.
Operands operands() {
  constexpr std::size_t kWorkspace = 512;
  Operands all = operands_of(problem(), bshd_args(problem(), nullptr, nullptr, nullptr, nullptr), kWorkspace);
  for (std::size_t i = 0; i < kOperandCount; ++i) all.list[i].data = at((i + 1) << 24);
  return all;
}

/// "FIELD = VALUE, RULE" lines.
std::string broken(const Operands& all, RowAlignment alignment = RowAlignment::bytes16) {
  const PlannedProblem p(problem(), {alignment});
  std::string text;
  for (const Violation& v : violations_of(p, AttentionArgs{}, all)) text += to_string(v) + "\n";
  return text;
}

/// With operand `i` moved.
std::string broken_with(std::size_t i, const void* data, RowAlignment alignment = RowAlignment::bytes16) {
  Operands all = operands();
  all.list[i].data = data;
  return broken(all, alignment);
}

/// Whether the first line is of a field of operand `i`.
bool names(const std::string& text, std::size_t i) {
  return text.rfind(std::string(operands().list[i].name), 0) == 0;
}

std::size_t last_8_bytes_of_memory() {
  return ~std::uintptr_t{7};
}

}  // namespace

TEST_CASE("operands: one a role, each with a name, elements and bytes") {
  std::set<std::string_view> found;
  for (const Operand& t : operands()) {
    INFO(t.name);
    CHECK(!t.name.empty());
    CHECK(size_in_bytes(t) > 0);
    CHECK(size_in_bytes(t) % static_cast<std::size_t>(bytes_of(t.element)) == 0);
    found.insert(t.name);
  }
  CHECK(found.size() == kOperandCount);

  const Operands all = operands();
  CHECK(all[Role::q].name == "q");
  CHECK(size_in_bytes(all[Role::q]) == 60 * 8 * 64 * 2);
  CHECK(size_in_bytes(all[Role::k]) == 100 * 2 * 64 * 2);
  CHECK(size_in_bytes(all[Role::v]) == 100 * 2 * 32 * 2);
  CHECK(size_in_bytes(all[Role::o]) == 60 * 8 * 32 * 2);
  CHECK(size_in_bytes(all[Role::lse]) == 60 * 8 * 4);
  CHECK(all[Role::lse].name == "lse");
  CHECK(size_in_bytes(all[Role::workspace]) == 512);
  CHECK(size_in_bytes(all[Role::cu_seqlens_q]) == 6 * 4);
  CHECK(size_in_bytes(all[Role::cu_seqlens_k]) == 6 * 4);
  CHECK(size_in_bytes(all[Role::seqused_q]) == 5 * 4);
  CHECK(size_in_bytes(all[Role::seqused_k]) == 5 * 4);
  CHECK(size_in_bytes(all[Role::dropout_state]) == 16);
  CHECK(broken(all).empty());
}

TEST_CASE("operands: of a batched side there are no borders, and of equal lengths no tables at all") {
  AttentionProblem p = problem();
  p.total_q = 0;
  Operands all = operands_of(p, {});
  CHECK(size_in_bytes(all[Role::q]) == 5 * 8 * 16 * 64 * 2);
  CHECK(size_in_bytes(all[Role::lse]) == 5 * 8 * 16 * 4);
  CHECK(all[Role::cu_seqlens_q].is_absent());
  CHECK_FALSE(all[Role::cu_seqlens_k].is_absent());
  CHECK(size_in_bytes(all[Role::seqused_q]) == 5 * 4);
  p.total_k = 0;
  all = operands_of(p, {});
  CHECK(size_in_bytes(all[Role::k]) == 5 * 2 * 8 * 64 * 2);  // pages
  CHECK(size_in_bytes(all[Role::page_table]) == 3 * 4);
  AttentionArgs rows_apart;
  rows_apart.page_table_stride = 10;
  CHECK(size_in_bytes(operands_of(p, rows_apart)[Role::page_table]) == (4 * 10 + 3) * 4);
  p.page_size = 0;
  p.varlen = false;
  all = operands_of(p, {});
  CHECK(size_in_bytes(all[Role::k]) == 5 * 2 * 24 * 64 * 2);
  CHECK(size_in_bytes(all[Role::v]) == 5 * 2 * 24 * 32 * 2);
  CHECK(size_in_bytes(all[Role::o]) == 5 * 8 * 16 * 32 * 2);
  for (const Role role :
       {Role::cu_seqlens_q, Role::cu_seqlens_k, Role::seqused_q, Role::seqused_k, Role::page_table})
    CHECK(size_in_bytes(all[role]) == 0);
}

TEST_CASE("operands: a dense one spans its elements, strided or not") {
  for (const Operand& t : operands()) {
    INFO(t.name);
    const ByteRange range = range_of(t);
    CHECK(range.begin == Int128{t.address()});
    CHECK(static_cast<std::size_t>(range.end - range.begin) == size_in_bytes(t));
  }
}

TEST_CASE("operands: each is asked for its pointer, alignment and place") {
  for (std::size_t i = 0; i < kOperandCount; ++i) {
    const Operand t = operands().list[i];
    INFO(t.name);
    CHECK(broken_with(i, nullptr) ==
          (t.optional ? "" : fmt::format("{} = null, must point to the tensor: it has elements\n", t.name)));
    for (const RowAlignment alignment : {RowAlignment::bytes16, RowAlignment::element}) {
      CHECK(names(broken_with(i, at(t.address() + 1), alignment), i));
      CHECK(names(broken_with(i, at(last_8_bytes_of_memory()), alignment), i));
    }
    const std::uintptr_t next = t.address() + static_cast<std::uintptr_t>(t.least_alignment());
    CHECK(broken_with(i, at(next), RowAlignment::element).empty());
    CHECK(broken_with(i, at(next)).empty() == !t.strided);
    CHECK(names(broken_with(i, at(next - 1), RowAlignment::element), i));
  }
}

TEST_CASE("operands: whatever is written shares no byte with another") {
  const Operands all = operands();
  for (std::size_t i = 0; i < kOperandCount; ++i) {
    for (std::size_t j = 0; j < kOperandCount; ++j) {
      if (i == j) continue;
      const Operand &a = all.list[i], &b = all.list[j];
      INFO(a.name, " and ", b.name);
      const std::string text = broken_with(i, b.data);
      CHECK(text.empty() == !(a.is_written() || b.is_written()));
      const std::size_t alignment = 256, size = (size_in_bytes(b) + alignment - 1) / alignment * alignment;
      CHECK(broken_with(i, at(b.address() + size)).empty());
      if (text.empty()) continue;
      CHECK(text.find('\n') == text.size() - 1);  // told once
      CHECK((names(text, i) || names(text, j)));
    }
  }
}

TEST_CASE("operands: the rows of each written one lie apart") {
  for (std::size_t i = 0; i < kOperandCount; ++i) {
    Operands all = operands();
    Operand& t = all.list[i];
    if (!t.strided) continue;
    INFO(t.name);
    t.strides[2] -= 8;
    CHECK(broken(all, RowAlignment::element).empty() == !t.is_written());
  }
}

TEST_CASE("operands: each is asked where it lives, unless nobody touches it") {
  static std::uintptr_t elsewhere = 0;
  const auto facts = [](const void* pointer) -> PointerFacts {
    return {PointerKind::device, reinterpret_cast<std::uintptr_t>(pointer) == elsewhere ? 1 : 0};
  };
  for (const Operand& t : operands()) {
    INFO(t.name);
    elsewhere = t.address();
    const std::vector<Violation> found = violations_of_residency(operands(), 0, facts);
    REQUIRE(found.size() == 1);
    CHECK(found[0].field == t.name);
  }
  AttentionProblem no_keys = problem();
  no_keys.seqlen_k = no_keys.total_k = no_keys.page_size = 0;
  AttentionArgs args;
  args.k = at(elsewhere);
  CHECK(violations_of_residency(operands_of(no_keys, args), 0, facts).empty());
}
