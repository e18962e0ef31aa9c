// What attention reads and writes.
#include <generator/sequences.h>
#include <operation/operands/operands.h>
#include <operation/operands/workspace.h>

#include <algorithm>

namespace fa2 {
namespace {

/// Two numbers of 64 bits, which kernels read as four of 32.
Operand dropout_state(const std::uint64_t* data, bool is_used) {
  Operand operand =
      optional_operand("dropout.state", Access::read, data, ElementType::i32, {is_used, 1, 1, 4});
  operand.alignment = sizeof *data;
  return operand;
}

/// Where packed sequences begin and end; absent where they are batched.
Operand borders(std::string_view name, const std::int32_t* data, const AttentionProblem& p,
                std::int64_t total) {
  Operand operand =
      optional_operand(name, Access::read, data, ElementType::i32, {total > 0, 1, 1, p.batch + 1});
  operand.optional = false;
  return operand;
}

/// From the first sequence's entries to the last one's.
Operand page_table_of(const AttentionProblem& p, const AttentionArgs& args) {
  const std::int64_t pages = pages_of_sequence(p), sequences = p.varlen ? p.batch : 0;
  const std::int64_t entries =
      pages > 0 && sequences > 0 ? (sequences - 1) * args.page_table_stride + pages : 0;
  Operand operand =
      optional_operand("page_table", Access::read, args.page_table, ElementType::i32, {1, 1, 1, entries});
  operand.optional = false;
  return operand;
}

/// A number a query head; of each batch where `per_batch` says so.
Operand numbers_of_heads(std::string_view name, const AttentionProblem& p, bool is_used, const float* data,
                         bool per_batch = false) {
  Operand operand;
  operand.name = name;
  operand.element = ElementType::f32;
  operand.data = data;
  operand.extents = {!is_used ? 0 : per_batch ? p.batch : 1, 1, 1, p.heads_q};
  return operand;
}

/// Of the variants that the problem has; absent ones of the others.
void add_variants(Operands& operands, const AttentionProblem& p, const AttentionArgs& args) {
  std::size_t next = static_cast<std::size_t>(Role::variants);
  visit_numbers(
      [&](const char*, const char* name, bool is_used, const auto& value, const auto&... per_batch) {
        if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(value)>>)
          operands.list[next++] = numbers_of_heads(name, p, is_used, value, per_batch...);
      },
      p, args);
}

/// What launches work in, unless the context has it for them.
Operand workspace_of(void* data, std::size_t bytes) {
  Operand operand = optional_operand("workspace", Access::read_write, data, ElementType::byte,
                                     {1, 1, 1, static_cast<std::int64_t>(bytes)});
  operand.alignment = kWorkspaceAlignment;
  return operand;
}

}  // namespace

Operand strided_operand(std::string_view name, Access access, const void* data, ElementType element,
                        const std::array<std::int64_t, 4>& extents, const TensorStrides& strides) {
  return {.name = name,
          .element = element,
          .access = access,
          .strided = true,
          .data = data,
          .extents = extents,
          .strides = {strides.batch, strides.head, strides.row}};
}

Operand optional_operand(std::string_view name, Access access, const void* data, ElementType element,
                         const std::array<std::int64_t, 4>& extents) {
  return {
      .name = name, .element = element, .access = access, .optional = true, .data = data, .extents = extents};
}

Operands operands_of(const AttentionProblem& p, const AttentionArgs& args, std::size_t workspace_bytes) {
  const ElementType element = element_of(p.dtype);
  const std::int64_t heads_kv = p.heads_kv == 0 ? p.heads_q : p.heads_kv;
  const std::int64_t dim_v = p.head_dim_v == 0 ? p.head_dim : p.head_dim_v;
  const Entries q = q_entries(p), k = k_entries(p);
  const std::int64_t sequences = p.varlen ? p.batch : 0;
  Operands operands{{
      strided_operand("q", Access::read, args.q, element, {q.count, p.heads_q, q.rows, p.head_dim},
                      args.q_strides),
      strided_operand("k", Access::read, args.k, element, {k.count, heads_kv, k.rows, p.head_dim},
                      args.k_strides),
      strided_operand("v", Access::read, args.v, element, {k.count, heads_kv, k.rows, dim_v}, args.v_strides),
      strided_operand("o", Access::write, args.o, element, {q.count, p.heads_q, q.rows, dim_v},
                      args.o_strides),
      optional_operand("lse", Access::write, args.lse, ElementType::f32, {q.count, p.heads_q, q.rows, 1}),
      workspace_of(args.workspace, workspace_bytes),
      borders("cu_seqlens_q", args.cu_seqlens_q, p, p.total_q),
      borders("cu_seqlens_k", args.cu_seqlens_k, p, p.total_k),
      optional_operand("seqused_q", Access::read, args.seqused_q, ElementType::i32, {1, 1, 1, sequences}),
      optional_operand("seqused_k", Access::read, args.seqused_k, ElementType::i32, {1, 1, 1, sequences}),
      page_table_of(p, args),
      dropout_state(args.dropout.state, p.dropout),
  }};
  add_variants(operands, p, args);
  return operands;
}

BackwardOperands backward_operands_of(const AttentionProblem& p, const BackwardArgs& args,
                                      std::size_t workspace_bytes) {
  Operands forward = operands_of(p, args.forward, workspace_bytes);
  forward.list[static_cast<std::size_t>(Role::workspace)].data = args.workspace;
  BackwardOperands operands;
  std::ranges::copy(forward, operands.list.begin());
  const auto at = [&](Role role) -> Operand& { return operands.list[static_cast<std::size_t>(role)]; };
  at(Role::o).access = at(Role::lse).access = Access::read;
  at(Role::lse).optional = false;
  const auto shaped_like = [&](Role like, std::string_view name, Access access, const void* data,
                               const TensorStrides& strides) {
    const Operand& of = forward[like];
    return strided_operand(name, access, data, of.element, of.extents, strides);
  };
  at(Role::d_o) = shaped_like(Role::o, "d_o", Access::read, args.d_o, args.d_o_strides);
  at(Role::d_lse) =
      optional_operand("d_lse", Access::read, args.d_lse, ElementType::f32, forward[Role::lse].extents);
  at(Role::dq) = shaped_like(Role::q, "dq", Access::write, args.dq, args.dq_strides);
  at(Role::dk) = shaped_like(Role::k, "dk", Access::write, args.dk, args.dk_strides);
  at(Role::dv) = shaped_like(Role::v, "dv", Access::write, args.dv, args.dv_strides);
  at(Role::d_sinks) = numbers_of_heads("d_sinks", p, p.sinks, args.d_sinks);
  at(Role::d_sinks).access = Access::write;
  for (const Role role : {Role::dq, Role::dk, Role::dv, Role::d_sinks}) at(role).optional = true;
  return operands;
}

std::size_t size_in_bytes(const Operand& operand) {
  std::size_t bytes = static_cast<std::size_t>(bytes_of(operand.element));
  for (const std::int64_t extent : operand.extents) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

}  // namespace fa2
