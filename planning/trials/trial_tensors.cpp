// Allocates and fills the operands of candidates.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <operation/operands/captured_bytes.h>
#include <planning/trials/trial_tensors.h>
#include <runtime/log.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace fa2 {
namespace {

constexpr double kLeastBytes = 16 << 20;

std::vector<Operand> operands_of(const AttentionProblem& problem, const BackwardArgs& args, bool backward) {
  const auto listed = [](const auto& operands) {
    return std::vector<Operand>(operands.begin(), operands.end());
  };
  return backward ? listed(backward_operands_of(problem, args)) : listed(operands_of(problem, args.forward));
}

/// Fills the buffer from byte `begin` on with `values` in rotation, beginning with number `from`.
template <class Value>
void upload_repeated(DeviceBuffer& buffer, Stream stream, const std::vector<Value>& values,
                     std::size_t from = 0, std::size_t begin = 0) {
  for (std::size_t done = begin; done < buffer.size(); from = 0) {
    const std::size_t bytes = std::min((values.size() - from) * sizeof(Value), buffer.size() - done);
    buffer.upload(&values[from], bytes, done, stream);
    done += bytes;
  }
}

/// Returns the LSE of a row of normally distributed scores; there is one score per key that a query sees on average.
float typical_lse(const AttentionProblem& p) {
  const double keys = pairs_of_mix(p) / std::max(1.0, double(p.batch) * double(p.seqlen_q));
  return static_cast<float>(std::log(std::max(1.0, keys)) + 0.5);
}

}  // namespace

TrialTensors::TrialTensors(const PlannedProblem& problem, KernelPass pass, TrialLimits limits,
                           const OwnedStream& stream)
    : is_backward_(pass != KernelPass::forward), stream_(stream) {
  if (is_backward_) limits.bytes /= 3;  // for gradients, and the dQ accumulator in float32
  for (;; limits.bytes /= 4) {
    problem_ = PlannedProblem(within(limits, problem), problem);
    try {
      allocate();
      break;
    } catch (const CudaError& error) {
      if (limits.bytes <= kLeastBytes) throw;
      log().debug("searching with less memory than {:.0f} MB: {}", limits.bytes / 1e6, error.what());
    }
  }
  point();
  upload_inputs();
}

void TrialTensors::allocate() {
  buffers_.clear();
  BackwardArgs sizes;
  sizes.forward.page_table_stride = pages_of_sequence(problem_);
  for (const Operand& operand : operands_of(problem_, sizes, is_backward_)) {
    const bool is_gradient = is_backward_ && operand.access == Access::write;
    buffers_.emplace_back(operand.optional && !is_gradient ? 0 : size_in_bytes(operand));
  }
}

void TrialTensors::point() {
  const auto at = [&](Role role) { return (*this)[role].data(); };
  const auto floats = [&](Role role) { return static_cast<float*>(at(role)); };
  AttentionArgs& args = args_.forward;
  args = bshd_args(problem_, at(Role::q), at(Role::k), at(Role::v), at(Role::out), floats(Role::lse));
  args.max_logits = floats(Role::max_logits);
  args.cu_seqlens_q = static_cast<const std::int32_t*>(at(Role::cu_seqlens_q));
  args.cu_seqlens_k = static_cast<const std::int32_t*>(at(Role::cu_seqlens_k));
  args.page_table = static_cast<const std::int32_t*>(at(Role::page_table));
  args.page_table_stride = pages_of_sequence(problem_);
  const auto add = [&](const char*, const char* name, bool is_used, auto& value, const auto&...) {
    if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(value)>>) {
      value = static_cast<const float*>(buffers_[operand_index(name)].data());
    } else {
      value = is_used ? kTrialNumber : 0;
    }
  };
  visit_numbers(add, problem_, args);
  if (problem_.dropout) args.dropout.probability = kTrialDropout;
  if (problem_.query_pieces && problem_.varlen)
    args.query_pieces.table = static_cast<const std::int32_t*>(at(Role::query_pieces));
  else if (problem_.query_pieces)
    args.query_pieces = trial_pieces(problem_, problem_.seqlen_q, problem_.seqlen_k);
  if (problem_.score_text != 0) point_captures();
  if (is_backward_) {
    args_.d_out = at(Role::d_out), args_.d_out_strides = args.out_strides;
    args_.dq = at(Role::dq), args_.dq_strides = args.q_strides;
    args_.dk = at(Role::dk), args_.dk_strides = args.k_strides;
    args_.dv = at(Role::dv), args_.dv_strides = args.v_strides;
  }
  operands_ = operands_of(problem_, args_, is_backward_);
}

/// Captures read one element wherever they look. Of an element per score, rows of neighbouring queries overlap.
void TrialTensors::point_captures() {
  constexpr std::int64_t kRow = 16;  // bytes between two
  captured_ = DeviceBuffer(
      static_cast<std::size_t>(kRow * problem_.seqlen_q + std::int64_t{sizeof(float)} * problem_.seqlen_k) +
      sizeof(std::int64_t));
  captured_.fill(0, stream_.get());
  for (const CaptureSpec& spec : score_texts(problem_.score_text).captures) {
    ScoreCapture& capture = captures_.emplace_back();
    if (spec.dimensions == CaptureSpec::kNumber) continue;
    capture.data = captured_.data();
    if (spec.dimensions == CaptureSpec::kPerScore) {
      capture = {.data = captured_.data(),
                 .sizes = {1, 1, problem_.seqlen_q, problem_.seqlen_k},
                 .strides = {0, 0, kRow / bytes_of(spec.type), 1}};
      continue;
    }
    std::fill_n(capture.sizes, spec.dimensions, std::numeric_limits<std::int32_t>::max());
  }
  args_.forward.captures = captures_.data();
  args_.forward.capture_count = static_cast<std::int64_t>(captures_.size());
}

Call TrialTensors::call(const WorkspaceLayout& layout) const {
  auto* const workspace = static_cast<std::byte*>((*this)[Role::workspace].data());
  return {.problem = problem_,
          .args = is_backward_ ? AnyRef(args_) : AnyRef(args_.forward),
          .operands = OperandList(operands_),
          .counters = workspace,
          .scratch = workspace == nullptr ? nullptr : workspace + layout.scratch_begin()};
}

void TrialTensors::make_workspace(std::size_t bytes) {
  (*this)[Role::workspace] = DeviceBuffer(bytes);
  (*this)[Role::workspace].fill(0, stream_.get());
}

void TrialTensors::upload_borders(Role role, std::int64_t total, std::int64_t longest) {
  if (total == 0) return;
  const auto borders = borders_of(mix_of(problem_.batch, total, longest));
  (*this)[role].upload(borders.data(), borders.size() * sizeof borders[0], 0, stream_.get());
}

/// Uses all pages in rotation, every two of them swapped.
void TrialTensors::upload_pages() {
  std::vector<std::int32_t> table((*this)[Role::page_table].size() / sizeof(std::int32_t));
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<std::int32_t>((i ^ 1) % static_cast<std::size_t>(problem_.page_count));
  (*this)[Role::page_table].upload(table.data(), table.size() * sizeof table[0], 0, stream_.get());
}

void TrialTensors::upload_inputs() {
  const AttentionProblem& p = problem_;
  upload_borders(Role::cu_seqlens_q, p.total_q, p.seqlen_q);
  upload_borders(Role::cu_seqlens_k, p.total_k, p.seqlen_k);
  if (p.page_size > 0) upload_pages();
  if (p.query_pieces && p.varlen)
    upload_repeated((*this)[Role::query_pieces], stream_.get(), trial_piece_table(p));
  constexpr std::uint8_t kSmall = 0x3d;  // in every byte: 0.046
  for (std::size_t i = 0; i < kOperandCount; ++i)
    if (has_numbers(static_cast<Role>(i))) buffers_[i].fill(kSmall, stream_.get());
  constexpr std::size_t kPeriod = 1000003;  // prime: rows of any length differ
  const ElementType keys = key_value_format(p).element;
  const std::vector<std::uint16_t> values = normal_values(kPeriod, p.dtype),
                                   key_words = p.kv_type == KvType::ds_mla   ? latent_words(kPeriod)
                                               : keys == element_of(p.dtype) ? values
                                                                             : normal_words(kPeriod, keys);
  std::vector<Role> inputs = {Role::q, Role::k, Role::v};
  if (is_backward_) inputs.insert(inputs.end(), {Role::out, Role::d_out});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_key = inputs[i] == Role::k || inputs[i] == Role::v;
    upload_repeated(
        (*this)[inputs[i]], stream_.get(), is_key ? key_words : values,
        p.kv_type == KvType::ds_mla ? 0 : kPeriod / inputs.size() * i);  // so that tensors differ too
  }
  if (is_backward_) {
    upload_repeated((*this)[Role::lse], stream_.get(), std::vector<float>(kPeriod, typical_lse(p)));
    return;
  }
  DeviceBuffer& queries = (*this)[Role::q];
  upload_repeated(queries, stream_.get(), normal_values(kPeriod, p.dtype, kPeakedQueries), 0,
                  queries.size() / 4 * 2);
}

}  // namespace fa2
