// Inputs of `fa2 run`, its launches and its times.
#include <fa2/score_text.h>
#include <fmt/format.h>
#include <interpreter/block_observer.h>
#include <interpreter/host_text.h>
#include <tools/flops.h>
#include <tools/progress.h>
#include <tools/run_call.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <utility>

namespace fa2::tools {
namespace {

constexpr int kBursts = 7;

/// Notes which of the inputs that are read last cannot be read.
void note_later_inputs(const RunOptions& options, Mistakes& mistakes) {
  std::vector<std::string> paths = {options.d_out, options.d_lse};
  if (options.backward.wanted) paths.insert(paths.end(), {options.out, options.lse});
  for (const auto& [variant, path] : options.variants.files) paths.push_back(path);
  constexpr Ranks kAny{0, 8};
  for (const std::string& path : paths) {
    if (!path.empty()) mistakes.attempt([&] { read_npy(path, kAny); });
  }
}

/// With --values-in-keys V is not loaded, so its file must hold what K's does.
void require_values_in_keys(const RunInputs& in) {
  const std::ptrdiff_t k_dim = in.k.extents.dim, v_dim = in.v.extents.dim,
                       rows = std::ssize(in.k.bits) / k_dim;
  bool is_same = v_dim <= k_dim && rows * v_dim == std::ssize(in.v.bits);
  for (std::ptrdiff_t row = 0; is_same && row < rows; ++row)
    is_same = std::equal(in.v.bits.begin() + row * v_dim, in.v.bits.begin() + (row + 1) * v_dim,
                         in.k.bits.begin() + row * k_dim);
  if (!is_same)
    throw CLI::ValidationError(
        "--v: must hold the first columns of --k with --values-in-keys, or leave that out");
}

interpreter::HostPosition on_host(const reference::ScorePosition& at) {
  const auto narrow = [](std::int64_t number) { return static_cast<int>(number); };
  return {narrow(at.batch), narrow(at.head),    narrow(at.query),
          narrow(at.key),   narrow(at.queries), narrow(at.keys)};
}

reference::ScoreFunctions functions_of(std::int64_t number, const std::vector<ScoreCapture>& captures) {
  using At = reference::ScorePosition;
  const interpreter::HostText text(number, captures);
  reference::ScoreFunctions functions = {
      .mod = [text](double score, const At& at) { return text.modified(score, on_host(at)); },
      .slope = [text](double score, const At& at) { return text.slope(score, on_host(at)); }};
  if (text.has_mask()) functions.mask = [text](const At& at) { return text.is_visible(on_host(at)); };
  return functions;
}

}  // namespace

std::vector<std::int64_t> RunInputs::lse_shape() const {
  const Extents& e = q.extents;
  if (e.packed) return {e.heads, e.rows};
  return {e.batch, e.heads, e.rows};
}

std::size_t RunInputs::lse_count() const {
  const Extents& e = q.extents;
  return static_cast<std::size_t>(e.batch * e.heads * e.rows);
}

bool RunInputs::are_float32() const {
  return problem.dtype != DType::f16 || q.was_float32 || k.was_float32 || v.was_float32;
}

RunInputs read_inputs(const RunOptions& options, Mistakes& mistakes) {
  const KvType kv_type = options.variants.fields.kv_type;
  const ElementType queries = element_of(options.dtype), keys = element_of(kv_type, options.dtype);
  mistakes.attempt([&] {
    if (kv_type == KvType::same && (options.k_scale || options.v_scale))
      throw CLI::ValidationError(
          "--k-scale and --v-scale are factors of 8-bit elements: pass --kv-type e4m3");
  });
  mistakes.attempt([&] {
    if (kv_type == KvType::ds_mla)
      throw CLI::ValidationError("--kv-type = ds_mla, must be same or e4m3: files hold no rows of 656 bytes");
  });
  RunInputs in;
  in.tables = options.sequences.tables(mistakes);
  const auto read = [&](const std::string& path, const char* cu_seqlens, ElementType type, float scale,
                        HostTensor& tensor) {
    const bool is_packed = options.sequences.files.count(cu_seqlens) > 0;
    mistakes.attempt([&] { tensor = read_tensor(path, options.file_layout(), type, is_packed, scale); });
  };
  read(options.q, "cu_seqlens_q", queries, 1, in.q);
  read(options.k, "cu_seqlens_k", keys, options.k_scale.value_or(1), in.k);
  read(options.v, "cu_seqlens_k", keys, options.v_scale.value_or(1), in.v);
  if (mistakes.any()) note_later_inputs(options, mistakes);
  mistakes.require_none();
  in.problem = problem_of(in.q, in.k, in.v, options.dtype, options.mask.mask(), in.tables);
  in.problem.kv_type = kv_type;
  in.problem.max_logits = !options.max_logits.empty();
  if (options.variants.fields.values_in_keys) require_values_in_keys(in);
  require_sound(in.tables, in.problem);
  in.k_scale = options.k_scale.value_or(1);
  in.v_scale = options.v_scale.value_or(1);
  return in;
}

DeviceInputs::DeviceInputs(const RunInputs& in)
    : q_(uploaded(in.q)),
      k_(uploaded(in.k)),
      v_(uploaded(in.v)),
      factors_(uploaded(std::vector<float>{in.k_scale, in.v_scale})),
      tables_(in.tables) {}

AttentionArgs DeviceInputs::args(const RunOptions& options, const RunInputs& in,
                                 const VariantInputs& variants, void* out, float* lse) const {
  const auto make_args = options.file_layout() == Layout::bshd ? bshd_args : bhsd_args;
  AttentionArgs args = make_args(in.problem, q_.data(), k_.data(), v_.data(), out, lse);
  args.softmax_scale = options.scale;
  if (in.problem.kv_type != KvType::same) {
    args.k_descale = static_cast<const float*>(factors_.data());
    args.v_descale = args.k_descale + 1;
  }
  variants.add_to(args);
  tables_.add_to(args, in.problem);
  return args;
}

DeviceBuffer uploaded(const HostTensor& tensor) {
  if (bytes_of(tensor.type) == 1) {
    const std::vector<std::uint8_t> bytes(tensor.bits.begin(), tensor.bits.end());
    DeviceBuffer buffer(bytes.size());
    buffer.upload(bytes.data(), buffer.size());
    return buffer;
  }
  DeviceBuffer buffer(tensor.bits.size() * sizeof tensor.bits[0]);
  buffer.upload(tensor.bits.data(), buffer.size());
  return buffer;
}

DeviceBuffer uploaded(const std::vector<float>& values) {
  DeviceBuffer buffer(values.size() * sizeof values[0]);
  buffer.upload(values.data(), buffer.size());
  return buffer;
}

DeviceBuffer unwritten(std::size_t bytes, const OwnedStream& stream) {
  DeviceBuffer buffer(bytes);
  buffer.fill(0xff, stream.get());
  return buffer;
}

reference::ScoreRule rule_of(const RunOptions& options, const RunInputs& in, const VariantInputs& variants) {
  const float scale =
      options.scale ? *options.scale : static_cast<float>(1 / std::sqrt(double(in.problem.head_dim)));
  reference::ScoreRule rule(double{scale});
  rule.numbers = in.tables.pointers(in.problem);
  rule.numbers.k_descale = &in.k_scale;
  rule.numbers.v_descale = &in.v_scale;
  variants.add_to(rule);
  if (in.problem.score_text != 0) {
    const std::vector<ScoreCapture>& captures = variants.captures_on_host();
    rule.functions = functions_of(in.problem.score_text, captures);
    // A slope that is wrong shows in gradients; a mask that differs inside a block may not.
    if (score_texts(in.problem.score_text).mask_block != MaskBlock{})
      check_score_text(in.problem, captures.data(), static_cast<std::int64_t>(captures.size()));
  }
  return rule;
}

void run_once(const Launch& launch, const OwnedStream& stream, bool json) {
  std::optional<Progress> progress;
  std::size_t before = 0;
  const interpreter::ScopedBlockObserver observer([&](std::size_t done, std::size_t blocks) {
    if (!progress || done <= before)
      progress.emplace("interpreting blocks", blocks, json);  // the next kernel
    progress->update(done);
    before = done;
  });
  launch(stream.get());
  stream.synchronize();
}

RunTime measure(const Launch& launch, double flops, const OwnedStream& stream) {
  LaunchTimer timer(launch, stream);
  std::vector<double> samples;
  for (int i = 0; i < kBursts; ++i) samples.push_back(timer.burst_us());
  return {flops, spread_of(std::move(samples)), timer.launches()};
}

Json json_of(const RunTime& time) {
  if (time.launches == 0) return nullptr;
  return {{"us", time.us.median},  {"p10_us", time.us.p10},
          {"p90_us", time.us.p90}, {"tflops", tflops(time.flops, time.us.median)},
          {"bursts", kBursts},     {"launches_per_burst", time.launches}};
}

std::string text_of(const RunTime& time) {
  if (time.launches == 0) return {};
  return fmt::format("{:.2f} us, {:.1f} TFLOP/s (median of {} bursts of {} launches)", time.us.median,
                     tflops(time.flops, time.us.median), kBursts, time.launches);
}

Lines lines_of(const Explanation& e) {
  Lines lines = {{"problem", to_string(e.problem)}, {"device", fmt::format("{} ({})", e.device, e.arch)}};
  for (const KernelReport& kernel : e.kernels) {
    lines.emplace_back("config", to_string(kernel.config));
    lines.emplace_back("chosen",
                       fmt::format("{}: {}", to_string(kernel.config_origin), kernel.config_reason));
    lines.emplace_back("kernel",
                       fmt::format("{}, ready in {:.1f} ms", to_string(kernel.origin), kernel.load_ms));
  }
  return lines;
}

Json json_of(const reference::Verdict& verdict) {
  return {
      {"ok", verdict.ok},       {"error", verdict.error},         {"baseline_error", verdict.baseline_error},
      {"limit", verdict.limit}, {"lse_error", verdict.lse_error}, {"message", verdict.message}};
}

Status status_of(bool ok, const std::string& message) {
  if (ok) return kOk;
  std::fflush(stdout);
  fmt::print(stderr, "fa2 run: {}\n", message);
  return kFailed;
}

}  // namespace fa2::tools
