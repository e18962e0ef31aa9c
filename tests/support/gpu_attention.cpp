// Guarded attention calls.
#include "gpu_attention.h"

#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <operation/operands/operands.h>
#include <runtime/device.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "latent_rows.h"
#include "random_tensor.h"
#include "temporary_directory.h"

namespace fa2::test {
namespace {

constexpr std::uint32_t kLseNaN = 0xffffffff, kLsePattern = 0xa5a5a5a5;
constexpr std::int64_t kDescaleGap = 3;  ///< floats between the factors of batch entries

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

ContextOptions untuned(const std::filesystem::path& cache_dir) {
  ContextOptions options;
  options.cache_dir = cache_dir.string();
  options.read_only_caches.emplace();
  options.tune = TuneMode::off, options.jit = JitMode::lazy;
  return options;
}

ContextOptions untuned() {
  static const TemporaryDirectory of_this_process;
  const char* const shared = std::getenv("TEST_KERNEL_CACHE");
  return untuned(shared == nullptr ? of_this_process.path() : shared);
}

ContextOptions pinning(const KernelConfig& config) {
  ContextOptions options = untuned();
  options.config = config;
  return options;
}

ContextOptions serving(const std::filesystem::path& pack) {
  ContextOptions options = untuned(pack);
  options.jit = JitMode::off;
  return options;
}

void precompile(Context& context, const std::vector<AttentionProblem>& problems,
                const std::vector<PlanOptions>& plans) {
  const std::string arch(device(current_device()).arch.name);
  PrecompileOptions options;
  options.scope = PrecompileScope::given_sizes;
  options.plans = plans;
  for (const PrecompiledKernel& kernel : context.precompile(problems, {arch}, options))
    CHECK_MESSAGE(kernel.error.empty(), kernel.error);
}

Layout guarded(const Shape& shape, const TensorStrides& strides, std::int64_t shift) {
  std::int64_t low = 0, high = shape.dim;
  for (const auto& [extent, stride] :
       {std::pair{shape.batch, strides.batch}, std::pair{shape.heads, strides.head},
        std::pair{shape.rows, strides.row}}) {
    const std::int64_t reach = std::max<std::int64_t>(extent - 1, 0) * stride;
    (reach < 0 ? low : high) += reach;
  }
  return {shape, strides, kGuard + shift - low, kGuard + shift - low + high + kGuard};
}

Layout guarded_bshd(const Shape& shape) {
  return guarded(shape, TensorStrides::bshd(shape.rows, shape.heads, shape.dim));
}

Layout guarded_bhsd(const Shape& shape) {
  return guarded(shape, TensorStrides::bhsd(shape.rows, shape.heads, shape.dim));
}

Layout misaligned(const Shape& shape) {
  return guarded(shape, TensorStrides::bshd(shape.rows, shape.heads, shape.dim), 1);
}

void scatter(const reference::Tensor& tensor, const Layout& layout, ElementType type,
             std::vector<std::uint16_t>& image) {
  for_each_row(layout, [&](auto b, auto h, auto r, auto offset) {
    for (std::int64_t d = 0; d < layout.shape.dim; ++d)
      image[index(offset + d)] = to_bits(tensor.at(b, h, r, d), type);
  });
}

reference::Tensor gather(const std::vector<std::uint16_t>& image, const Layout& layout, ElementType type) {
  reference::Tensor tensor = constant_tensor(layout.shape, 0);
  for_each_row(layout, [&](auto b, auto h, auto r, auto offset) {
    for (std::int64_t d = 0; d < layout.shape.dim; ++d)
      tensor.at(b, h, r, d) = from_bits(image[index(offset + d)], type);
  });
  return tensor;
}

void send(reference::Tensor& tensor, const Layout& layout, ElementType type, DeviceBuffer& buffer) {
  std::vector<std::uint16_t> image(index(layout.total), kNaNBits);
  scatter(tensor, layout, type, image);
  tensor = gather(image, layout, type);
  if (bytes_of(type) == 2) return buffer.upload(image.data(), buffer.size());
  const std::vector<std::uint8_t> bytes(image.begin(), image.end());
  buffer.upload(bytes.data(), buffer.size());
}

reference::Tensor first_columns(const reference::Tensor& of, std::int64_t count) {
  reference::Tensor columns = constant_tensor({of.batch, of.heads, of.rows, count}, 0);
  for (std::int64_t b = 0; b < of.batch; ++b)
    for (std::int64_t h = 0; h < of.heads; ++h)
      for (std::int64_t r = 0; r < of.rows; ++r)
        for (std::int64_t d = 0; d < count; ++d) columns.at(b, h, r, d) = of.at(b, h, r, d);
  return columns;
}

DeviceBuffer buffer_for(const Layout& layout, ElementType type) {
  return DeviceBuffer(index(layout.total) * index(bytes_of(type)));
}

std::uint16_t* element(const DeviceBuffer& buffer, std::int64_t offset) {
  return static_cast<std::uint16_t*>(buffer.data()) + offset;
}

reference::Tensor constant_tensor(const Shape& s, float value) {
  return {s.batch, s.heads, s.rows, s.dim,
          std::vector<float>(index(s.batch * s.heads * s.rows * s.dim), value)};
}

std::vector<std::uint16_t> bits_of(const reference::Tensor& tensor, DType dtype) {
  std::vector<std::uint16_t> bits;
  for (const float x : tensor.values) bits.push_back(to_bits(x, dtype));
  return bits;
}

Layouts layouts_of(const AttentionProblem& problem, MakeLayout make) {
  const AttentionProblem p = problem.normalized();
  const Entries q = q_entries(p), k = k_entries(p);
  return {make({q.count, p.heads_q, q.rows, p.head_dim}),
          make({k.count, p.heads_kv, k.rows, key_value_format(p).key_elements()}),
          make({k.count, p.heads_kv, k.rows, p.head_dim_v}),
          make({q.count, p.heads_q, q.rows, p.head_dim_v})};
}

GuardedCall::GuardedCall(const AttentionProblem& call_problem)
    : GuardedCall(call_problem, layouts_of(call_problem, guarded_bhsd)) {}

GuardedCall::GuardedCall(const AttentionProblem& call_problem, const Layouts& layouts)
    : problem(call_problem.normalized()),
      layouts_(layouts),
      q_(buffer_for(layouts.q)),
      k_(buffer_for(layouts.k, kv_element())),
      v_(buffer_for(layouts.v, kv_element())),
      out_(buffer_for(layouts.out)),
      lse_((lse_size() + 2 * kGuard) * sizeof(float)),
      max_logits_(problem.max_logits ? index(problem.batch * problem.heads_q) * sizeof(float) : 0),
      numbers_(kForwardTensors * index(problem.batch * problem.heads_q) * sizeof(float)),
      descales_(2 * index(problem.batch * (problem.heads_kv + kDescaleGap)) * sizeof(float)),
      tables_(problem.varlen ? 7 * index(problem.batch + 1) * sizeof(std::int32_t) : 0),
      dropout_state_(2 * sizeof(std::uint64_t)),
      page_table_(index(problem.batch * (pages_of_sequence(problem) + 1)) * sizeof(std::int32_t)) {
  args.q = element(q_, layouts.q.first);
  args.k = static_cast<const std::byte*>(k_.data()) + layouts.k.first * bytes_of(kv_element());
  args.v = static_cast<const std::byte*>(v_.data()) + layouts.v.first * bytes_of(kv_element());
  args.out = element(out_, layouts.out.first);
  args.lse = static_cast<float*>(lse_.data()) + kGuard;
  if (problem.max_logits) args.max_logits = static_cast<float*>(max_logits_.data());
  args.q_strides = layouts.q.strides;
  args.k_strides = layouts.k.strides;
  args.v_strides = layouts.v.strides;
  args.out_strides = layouts.out.strides;
  if (problem.values_in_keys) args.v = args.k, args.v_strides = args.k_strides;
  if (problem.dropout) args.dropout = {.probability = 0.3f, .seed = 0x123456789abcdef, .offset = 42};
  make_numbers();
  if (problem.kv_type != KvType::same) make_descales();
  if (problem.page_size > 0) {
    tables.page_table.assign(page_table_.size() / sizeof(std::int32_t), 0);
    args.page_table = static_cast<const std::int32_t*>(page_table_.data());
    args.page_table_stride = pages_of_sequence(problem) + 1;
  }
  if (problem.total_q > 0) tables.cu_seqlens_q.assign(index(problem.batch + 1), 0);
  if (problem.total_k > 0) tables.cu_seqlens_k.assign(index(problem.batch + 1), 0);
  randomize(7);
}

/// Scalars are 5; numbers of heads are -0.5, 0.5 and 1.5 in turn; slopes are as ALiBi's authors chose them.
void GuardedCall::make_numbers() {
  const auto make = [&](const char*, const std::string name, bool is_used, auto& value, auto&...) {
    if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(value)>>) {
      for (std::int64_t h = 0; h < problem.heads_q; ++h)
        numbers[name].push_back(name == "alibi_slopes" ? std::exp2(-static_cast<float>(h + 1))
                                                       : static_cast<float>(h % 3) - 0.5f);
    } else if (is_used) {
      value = 5;
    }
  };
  visit_numbers(make, problem, args);
}

void GuardedCall::make_descales() {
  const std::int64_t row = problem.heads_kv + kDescaleGap;
  args.k_descale_strides = args.v_descale_strides = {row, 1, 0};
  for (std::int64_t i = 0; i < problem.batch * row; ++i) {
    k_descale.push_back(0.75f + 0.25f * static_cast<float>(i % 5));
    v_descale.push_back(1.5f - 0.375f * static_cast<float>(i % 7));
  }
}

void GuardedCall::upload_descales() {
  const auto upload = [&](const std::vector<float>& factors, const float*& argument, std::size_t first) {
    argument = factors.empty() ? nullptr : static_cast<const float*>(descales_.data()) + first;
    if (!factors.empty())
      descales_.upload(factors.data(), factors.size() * sizeof(float), first * sizeof(float));
  };
  upload(k_descale, args.k_descale, 0);
  upload(v_descale, args.v_descale, descales_.size() / sizeof(float) / 2);
}

void GuardedCall::upload_numbers() {
  const std::size_t count = index(problem.batch * problem.heads_q);
  std::size_t first = 0;
  const auto upload = [&](const char*, const char* name, bool is_used, auto& value, auto&...) {
    if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(value)>>) {
      const std::vector<float>& of_heads = numbers.at(name);
      if (is_used) {
        value = static_cast<const float*>(numbers_.data()) + first;
        numbers_.upload(of_heads.data(), of_heads.size() * sizeof(float), first * sizeof(float));
      }
      first += count;
    }
  };
  visit_numbers(upload, problem, args);
}

void GuardedCall::randomize(unsigned seed) {
  q = random_tensor(layouts_.q.shape, problem.dtype, seed);
  const Shape& keys = layouts_.k.shape;
  k = random_tensor({keys.batch, keys.heads, keys.rows, problem.head_dim}, kv_element(), seed + 1);
  v = random_tensor(layouts_.v.shape, kv_element(), seed + 2);
  upload();
}

void GuardedCall::upload() {
  send(q, layouts_.q, problem.dtype, q_);
  problem.kv_type == KvType::ds_mla ? send_latents(k, layouts_.k, k_) : send(k, layouts_.k, kv_element(), k_);
  if (problem.values_in_keys) {
    v = first_columns(k, problem.head_dim_v);
  } else {
    send(v, layouts_.v, kv_element(), v_);
  }
  upload_numbers();
  upload_descales();
  if (problem.varlen) upload_tables();
  if (!dropout_state.empty()) {
    dropout_state_.upload(dropout_state.data(), dropout_state_.size());
    args.dropout = {args.dropout.probability, 0, 0, static_cast<const std::uint64_t*>(dropout_state_.data())};
  }
  out_.upload(blank_o().data(), out_.size());
  lse_.upload(blank_lse().data(), lse_.size());
  const std::vector<float> no_logits(max_logits_.size() / sizeof(float), std::nanf(""));
  max_logits_.upload(no_logits.data(), max_logits_.size());
}

/// A table keeps its address in every call of one problem.
void GuardedCall::upload_tables() {
  const std::size_t entries = index(problem.batch + 1);
  std::size_t next = 0;
  const auto upload = [&](const std::vector<std::int32_t>& table, const std::int32_t*& argument) {
    const std::size_t first = entries * next++;
    argument = table.empty() ? nullptr : static_cast<const std::int32_t*>(tables_.data()) + first;
    if (!table.empty()) tables_.upload(table.data(), table.size() * sizeof table[0], first * sizeof table[0]);
  };
  upload(tables.cu_seqlens_q, args.cu_seqlens_q);
  upload(tables.cu_seqlens_k, args.cu_seqlens_k);
  upload(tables.seqused_q, args.seqused_q);
  upload(tables.seqused_k, args.seqused_k);
  upload(tables.query_pieces, args.query_pieces.table);
  if (problem.page_size > 0) page_table_.upload(tables.page_table.data(), page_table_.size());
}

reference::ScoreRule GuardedCall::rule() const {
  const auto data = [](const auto& table) { return table.empty() ? nullptr : table.data(); };
  const float default_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(problem.head_dim)));
  reference::ScoreRule rule(static_cast<double>(args.softmax_scale.value_or(default_scale)));
  rule.numbers = args, rule.functions = functions;
  const auto on_host = [&](const char*, const char* name, bool, auto& value, auto&...) {
    if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(value)>>) value = data(numbers.at(name));
  };
  visit_numbers(on_host, problem, rule.numbers);
  rule.numbers.k_descale = data(k_descale), rule.numbers.v_descale = data(v_descale);
  rule.numbers.dropout.state = data(dropout_state);
  rule.numbers.cu_seqlens_q = data(tables.cu_seqlens_q);
  rule.numbers.cu_seqlens_k = data(tables.cu_seqlens_k);
  rule.numbers.seqused_q = data(tables.seqused_q);
  rule.numbers.seqused_k = data(tables.seqused_k);
  rule.numbers.page_table = data(tables.page_table);
  rule.numbers.query_pieces.table = data(tables.query_pieces);
  return rule;
}

std::vector<reference::Sequence> GuardedCall::sequences() const {
  return reference::sequences_of(problem, rule().numbers);
}

template <class Body>
void GuardedCall::for_each_output(const Body& body) const {
  const Layout& o = layouts_.out;
  for (const reference::Sequence& sequence : sequences()) {
    const auto& [entry, begin, count] = sequence.q;
    for (std::int64_t h = 0; h < o.shape.heads; ++h) {
      for (std::int64_t r = begin; r < begin + count; ++r) {
        body(o.first + entry * o.strides.batch + h * o.strides.head + r * o.strides.row,
             kGuard + (entry * o.shape.heads + h) * o.shape.rows + r);
      }
    }
  }
}

std::vector<std::uint16_t> GuardedCall::blank_o() const {
  std::vector<std::uint16_t> image(index(layouts_.out.total), kPatternBits);
  for_each_output(
      [&](auto first, auto) { std::fill_n(image.begin() + first, layouts_.out.shape.dim, kNaNBits); });
  return image;
}

std::vector<std::uint32_t> GuardedCall::blank_lse() const {
  std::vector<std::uint32_t> image(lse_size() + 2 * kGuard, kLsePattern);
  for_each_output([&](auto, auto row) { image[index(row)] = kLseNaN; });
  return image;
}

std::string GuardedCall::stray_writes() const {
  std::vector<std::uint16_t> before = blank_o(), after = downloaded<std::uint16_t>(out_);
  for_each_output([&](auto first, auto) {
    std::copy_n(after.begin() + first, layouts_.out.shape.dim, before.begin() + first);
  });
  const auto stray = std::mismatch(before.begin(), before.end(), after.begin()).first - before.begin();
  if (stray != layouts_.out.total)
    return fmt::format("; element {} of {}, of no row that is computed, was written", stray,
                       layouts_.out.total);

  const std::vector<std::uint32_t> lse_after = downloaded<std::uint32_t>(lse_);
  std::vector<std::uint32_t> lse_before = blank_lse();
  if (args.lse != nullptr)
    for_each_output([&](auto, auto row) { lse_before[index(row)] = lse_after[index(row)]; });
  return lse_before == lse_after ? "" : "; memory of no row's LSE was written";
}

reference::Verdict GuardedCall::check() const {
  const std::vector<float> sums = lse(), largest = max_logits();
  reference::Verdict verdict =
      reference::check(problem, q, k, v, rule(), out(), args.lse != nullptr ? &sums : nullptr,
                       args.empty_row_lse, problem.max_logits ? &largest : nullptr);
  const std::string stray = stray_writes();
  verdict.ok &= stray.empty();
  verdict.message = fmt::format("{}: {}{}", to_string(problem), verdict.message, stray);
  return verdict;
}

reference::Tensor GuardedCall::out() const {
  return gather(downloaded<std::uint16_t>(out_), layouts_.out, problem.dtype);
}

std::vector<float> GuardedCall::lse() const {
  const std::vector<std::uint32_t> image = downloaded<std::uint32_t>(lse_);
  std::vector<float> values;
  for (std::size_t i = 0; i < lse_size(); ++i) values.push_back(std::bit_cast<float>(image[kGuard + i]));
  return values;
}

std::vector<float> GuardedCall::max_logits() const {
  return downloaded<float>(max_logits_);
}

bool GuardedCall::is_untouched() const {
  return downloaded<std::uint16_t>(out_) == blank_o() && downloaded<std::uint32_t>(lse_) == blank_lse();
}

void expect_contract(const GuardedCall& call) {
  const reference::Verdict verdict = call.check();
  CHECK_MESSAGE(verdict.ok, verdict.message);
}

void run_and_expect_contract(Context& context, const GuardedCall& call) {
  context.attention(call.problem, call.args);
  expect_contract(call);
}

}  // namespace fa2::test
