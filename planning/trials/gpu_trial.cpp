// Compiles, loads, checks and times candidates on a GPU.
#include <autotune/config_choice.h>
#include <autotune/heuristic.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/kernel_source.h>
#include <planning/backward.h>
#include <planning/forward.h>
#include <planning/key_map.h>
#include <planning/trials/gpu_trial.h>
#include <runtime/log.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace fa2 {
namespace {

constexpr double kLongestBurstUs = 2000;
constexpr std::int64_t kWaves = 4, kBlocksPerSm = 2;

/// Returns enough launches of `us` for a sample.
int burst_for(double us, const TrialEffort& effort) {
  const double enough = std::ceil(effort.sample_us / us), affordable = std::floor(kLongestBurstUs / us);
  return static_cast<int>(std::clamp(std::max(enough, std::min(effort.launches, affordable)), 1.0, 100.0));
}

TrialLimits limits_of(const Device& device, double bytes) {
  TrialLimits limits;
  limits.bytes = bytes;
  limits.min_blocks = kWaves * kBlocksPerSm * device.sm_count;
  return limits;
}

}  // namespace

GpuTrial::GpuTrial(const PlannedProblem& problem, const Device& device,
                   const std::vector<KernelConfig>& candidates, KernelCache& kernels,
                   const TrialEffort& effort)
    : context_(device.ordinal),
      device_(device),
      kernels_(kernels),
      effort_(effort),
      tensors_(problem, pass_of(candidates.at(0)), limits_of(device, effort.bytes), stream_) {
  for (const KernelConfig& config : candidates) candidates_.push_back({.config = config});
  if (pass_of(candidates[0]) == KernelPass::forward) return;
  delta_config_ = heuristic_choices(problem, device.arch, KernelPass::delta).at(0).config;
  delta_ = load(delta_config_);
}

std::shared_ptr<const Kernel> GpuTrial::load(const KernelConfig& config) {
  const KernelSource source = render({traits_of(tensors_.problem()), config, device_.arch});
  return load_cuda_kernel(*kernels_.get(source).binary, device_.ordinal);
}

Plan GpuTrial::plan_of(const KernelConfig& config) {
  const PlannedProblem& p = tensors_.problem();
  Plan plan;
  if (!delta_) {
    Step step = forward_step(p, config, load(config), device_.sm_count);
    add_forward(plan, p, std::move(step), config.key_map != 0 ? load(key_map_config(config)) : nullptr);
    return plan;
  }
  const bool accumulates_dq = sums_dq(pass_of(config));
  const BackwardScratch scratch = accumulates_dq ? scratch_for(p, config, device_.sm_count) : scratch_for(p);
  Step step = backward_step(p, config, load(config), scratch);
  if (config.key_map != 0) add_key_map(plan, p, step, load(key_map_config(config)), scratch.bytes(p));
  plan.add(backward_step(p, delta_config_, delta_, scratch));
  plan.add(std::move(step));
  if (accumulates_dq) {
    const KernelConfig conversion = conversion_of(config).config;
    plan.add(backward_step(p, conversion, load(conversion), scratch));
  }
  return plan;
}

void GpuTrial::prepare(std::size_t index) {
  Candidate& candidate = candidates_[index];
  try {
    candidate.plan = plan_of(candidate.config);
    candidate.measured = (delta_ ? 1 : 0) + (candidate.config.key_map != 0 ? 1 : 0);
  } catch (const KernelRefused& error) {
    discard_source(error);
    throw Error(ErrorCode::compile, error.reason());
  }
}

double GpuTrial::measure_us(std::size_t index) {
  Candidate& candidate = candidates_[index];
  if (candidate.plan.workspace.bytes() > tensors_.workspace_bytes())
    tensors_.make_workspace(candidate.plan.workspace.bytes());
  if (candidate.burst == 0) {
    check_outputs(candidate);
    candidate.burst = burst_for(time_us(candidate, 1), effort_);
  }
  return time_us(candidate, candidate.burst);
}

void GpuTrial::launch(const Candidate& candidate, std::size_t first, std::size_t last, int times) {
  const Call call = tensors_.call(candidate.plan.workspace);
  for (std::size_t i = first; i < last; ++i) fa2::launch(candidate.plan.steps[i], call, stream_.get(), times);
}

/// Times only the candidate's own kernel. The steps before it run first, because other candidates may have overwritten the
/// scratch.
double GpuTrial::time_us(const Candidate& candidate, int times) {
  launch(candidate, 0, candidate.measured);
  timer_.start(stream_.get());
  launch(candidate, candidate.measured, candidate.measured + 1, times);
  timer_.stop(stream_.get());
  return timer_.elapsed_ms() * 1e3 / times;
}

std::vector<Role> GpuTrial::outputs_of(const Candidate& candidate) const {
  std::vector<Role> outputs = operands_written(std::span(candidate.plan.steps).subspan(candidate.measured));
  const Call call = tensors_.call();
  std::erase_if(outputs, [&](Role role) { return call.operands[role].is_absent(); });
  return outputs;
}

void GpuTrial::check_outputs(const Candidate& candidate) {
  const std::vector<Role> outputs = outputs_of(candidate);
  for (const Role role : outputs) tensors_[role].fill(kUnwritten & 0xff, stream_.get());
  launch(candidate, 0, candidate.plan.steps.size());
  stream_.synchronize();
  std::vector<std::vector<std::uint16_t>> samples;
  for (const Role role : outputs)
    samples.push_back(sample_of(tensors_.call().operands[role], tensors_[role]));
  const bool is_first = expected_.empty();
  const PlannedProblem& p = tensors_.problem();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Operand& output = tensors_.call().operands[outputs[i]];
    // The first candidate is compared with itself, which finds NaN. LSE of backwards knows nothing of what texts add to scores.
    const auto wrong = difference(is_first ? samples[i] : expected_[i], samples[i], output.extents[3],
                                  p.dtype, p.score_text != 0);
    if (!wrong) continue;
    const std::string message = fmt::format("wrong output {} for {} with {}: {}", output.name, to_string(p),
                                            to_string(candidate.config), *wrong);
    log().error("{}; it is not used. This is a bug in fa2, please report it", message);
    throw Error(ErrorCode::internal, message);
  }
  if (is_first) expected_ = std::move(samples);
}

/// Returns a small output whole, and of a large one about a million elements at 64 offsets, first and last rows included.
std::vector<std::uint16_t> GpuTrial::sample_of(const Operand& output, const DeviceBuffer& buffer) const {
  constexpr std::size_t kElements = 1 << 20, kPlaces = 64;
  const std::size_t dim = static_cast<std::size_t>(output.extents[3]);
  const std::size_t rows = buffer.size() / sizeof(std::uint16_t) / dim;
  const std::size_t places = rows * dim <= kElements ? 1 : kPlaces;
  const std::size_t rows_each = places == 1 ? rows : kElements / kPlaces / dim;
  std::vector<std::uint16_t> sample(places * rows_each * dim);
  for (std::size_t place = 0; place < places; ++place) {
    const std::size_t first_row = places == 1 ? 0 : (rows - rows_each) * place / (places - 1);
    buffer.download(&sample[place * rows_each * dim], rows_each * dim * sizeof sample[0],
                    first_row * dim * sizeof sample[0], stream_.get());
  }
  return sample;
}

}  // namespace fa2
