// Compiles, loads, checks and times candidates on a GPU.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/kernel_source.h>
#include <operation/forward_step.h>
#include <operation/gpu_trial.h>
#include <runtime/log.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

namespace fa2 {
namespace {

constexpr double kLeastBytes = 16 << 20;
constexpr double kSampleUs = 200;  // long beside the resolution of events and the gap before a first launch
constexpr double kLongestBurstUs = 2000;
constexpr std::int64_t kWaves = 4, kBlocksPerSm = 2;

/// Enough launches for a sample of 200 us, and at least 3 where that stays short.
int burst_for(double us) {
  const double enough = std::ceil(kSampleUs / us), affordable = std::floor(kLongestBurstUs / us);
  return static_cast<int>(std::clamp(std::max(enough, std::min(3.0, affordable)), 1.0, 100.0));
}

}  // namespace

GpuTrial::GpuTrial(const PlannedProblem& problem, const Device& device,
                   const std::vector<KernelConfig>& candidates, KernelCache& kernels)
    : context_(device.ordinal), device_(device), kernels_(kernels), tensors_(allocate(problem, device)) {
  for (const KernelConfig& config : candidates) candidates_.push_back({config, {}, 0});
  upload_inputs();
}

GpuTrial::Tensors GpuTrial::allocate(const PlannedProblem& problem, const Device& device) {
  TrialLimits limits;
  limits.min_blocks = kWaves * kBlocksPerSm * device.sm_count;
  for (;; limits.bytes /= 4) {
    const PlannedProblem p(within(limits, problem), problem);
    try {
      Tensors tensors{p, {}};
      for (const Operand& operand : operands_of(p, {}))
        tensors.buffers.emplace_back(operand.optional ? 0 : size_in_bytes(operand));
      return tensors;
    } catch (const CudaError& error) {
      if (limits.bytes <= kLeastBytes) throw;
      log().debug("searching with less memory than {:.0f} MB: {}", limits.bytes / 1e6, error.what());
    }
  }
}

AttentionArgs GpuTrial::Tensors::args() const {
  const auto at = [&](Role role) { return buffers[static_cast<std::size_t>(role)].data(); };
  AttentionArgs args = bshd_args(problem, at(Role::q), at(Role::k), at(Role::v), at(Role::o));
  args.cu_seqlens_q = static_cast<const std::int32_t*>(at(Role::cu_seqlens_q));
  args.cu_seqlens_k = static_cast<const std::int32_t*>(at(Role::cu_seqlens_k));
  std::size_t next = static_cast<std::size_t>(Role::variants);
  const auto add = [&](const char*, const char*, bool is_used, auto& value, const auto&...) {
    if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(value)>>) {
      value = static_cast<const float*>(buffers[next++].data());
    } else {
      value = is_used ? kTrialNumber : 0;
    }
  };
  AttentionArgs::visit_numbers(add, problem, args);
  return args;
}

void GpuTrial::upload_borders(Role role, std::int64_t total, std::int64_t longest) {
  if (total == 0) return;
  const auto borders = borders_of(mix_of(tensors_.problem.batch, total, longest));
  tensors_[role].upload(borders.data(), borders.size() * sizeof borders[0]);
}

void GpuTrial::upload_inputs() {
  const AttentionProblem& p = tensors_.problem;
  upload_borders(Role::cu_seqlens_q, p.total_q, p.seqlen_q);
  upload_borders(Role::cu_seqlens_k, p.total_k, p.seqlen_k);
  constexpr std::uint8_t kSmall = 0x3d;  // in every byte: 0.046
  for (auto i = static_cast<std::size_t>(Role::variants); i < kOperandCount; ++i)
    tensors_.buffers[i].fill(kSmall);
  constexpr std::size_t kPeriod = 1000003;  // prime: rows of any length differ
  const std::vector<std::uint16_t> values = normal_values(kPeriod, p.dtype);
  std::size_t start = 0;
  for (const Role role : {Role::q, Role::k, Role::v}) {
    DeviceBuffer& tensor = tensors_[role];
    std::size_t from = start;
    start += kPeriod / 3;  // the three tensors differ too
    for (std::size_t done = 0; done < tensor.size(); from = 0) {
      const std::size_t bytes = std::min((kPeriod - from) * sizeof values[0], tensor.size() - done);
      tensor.upload(&values[from], bytes, done);
      done += bytes;
    }
  }
}

void GpuTrial::prepare(std::size_t index) {
  Candidate& candidate = candidates_[index];
  const KernelSource source = render({traits_of(tensors_.problem), candidate.config, device_.arch});
  try {
    auto kernel = load_cuda_kernel(*kernels_.get(source).binary, device_.ordinal);
    candidate.step =
        forward_step(tensors_.problem, candidate.config, std::move(kernel), device_.sm_count, counters_);
  } catch (const KernelRefused& error) {
    discard_source(error);
    throw Error(ErrorCode::compile, error.reason());
  }
}

double GpuTrial::measure_us(std::size_t index) {
  Candidate& candidate = candidates_[index];
  if (candidate.burst == 0) {
    check_output(candidate);
    candidate.burst = burst_for(time_us(candidate, 1));
  }
  return time_us(candidate, candidate.burst);
}

void GpuTrial::launch(const Candidate& candidate, int times) const {
  const AttentionProblem& problem = tensors_.problem;
  const AttentionArgs args = tensors_.args();
  fa2::launch(candidate.step, {problem, args, operands_of(problem, args)}, stream_.get(), times);
}

double GpuTrial::time_us(const Candidate& candidate, int times) {
  timer_.start(stream_.get());
  launch(candidate, times);
  timer_.stop(stream_.get());
  return timer_.elapsed_ms() * 1e3 / times;
}

void GpuTrial::check_output(const Candidate& candidate) {
  const PlannedProblem& p = tensors_.problem;
  constexpr std::uint8_t kNaN = 0xff;  // in every byte: what is not written is seen
  tensors_[Role::o].fill(kNaN, stream_.get());
  launch(candidate, 1);
  stream_.synchronize();
  std::vector<std::uint16_t> output = sample_of_output();
  const bool is_first = expected_.empty();
  // The first is compared with itself: that finds NaN.
  if (auto wrong = difference(is_first ? output : expected_, output, p.head_dim_v, p.dtype)) {
    const std::string message =
        fmt::format("wrong output for {} with {}: {}", to_string(p), to_string(candidate.config), *wrong);
    log().error("{}; it is not used. This is a bug in fa2, please report it", message);
    throw Error(ErrorCode::internal, message);
  }
  if (is_first) expected_ = std::move(output);
}

/// All of a small output; of a large one about a million elements in 64 places, first and last rows included.
std::vector<std::uint16_t> GpuTrial::sample_of_output() {
  constexpr std::size_t kElements = 1 << 20, kPlaces = 64;
  const std::size_t dim = static_cast<std::size_t>(tensors_.problem.head_dim_v);
  const DeviceBuffer& output = tensors_[Role::o];
  const std::size_t rows = output.size() / sizeof(std::uint16_t) / dim;
  const std::size_t places = rows * dim <= kElements ? 1 : kPlaces;
  const std::size_t rows_each = places == 1 ? rows : kElements / kPlaces / dim;
  std::vector<std::uint16_t> sample(places * rows_each * dim);
  for (std::size_t place = 0; place < places; ++place) {
    const std::size_t first_row = places == 1 ? 0 : (rows - rows_each) * place / (places - 1);
    output.download(&sample[place * rows_each * dim], rows_each * dim * sizeof sample[0],
                    first_row * dim * sizeof sample[0]);
  }
  return sample;
}

}  // namespace fa2
