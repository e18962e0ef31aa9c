// Fills in CaptureParams and KeyMapParams.
#include <fa2/backward.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/score_tile_rules.h>
#include <operation/operands/captured_bytes.h>
#include <planning/held_maps.h>
#include <planning/tensor_maps.h>
#include <planning/text_params.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fa2 {
namespace {

/// Returns the value as the type in which the kernel reads it.
std::int64_t number_of(const CaptureSpec& spec, double number) {
  if (spec.type == CaptureType::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(number));
  if (spec.type == CaptureType::boolean) return number != 0 ? 1 : 0;
  return static_cast<std::int64_t>(number);
}

CaptureParams params_of(const CaptureSpec& spec, const ScoreCapture& capture) {
  CaptureParams params{};
  if (spec.dimensions == CaptureSpec::kNumber) {
    params.number = number_of(spec, capture.number);
    return params;
  }
  params.data = capture.data;
  // A dimension of one element may have any stride, whose bytes need not fit; its index is 0.
  std::ranges::transform(
      capture.strides, capture.sizes, params.strides,
      [&](std::int64_t stride, std::int64_t size) { return size > 1 ? stride * bytes_of(spec.type) : 0; });
  std::ranges::transform(capture.sizes, params.sizes,
                         [](std::int64_t size) { return static_cast<int>(size); });
  return params;
}

KeyMapParams params_of(const KeyMapLayout& map, std::byte* bits) {
  KeyMapParams params{};
  params.bits = reinterpret_cast<unsigned*>(bits);
  params.words = static_cast<int>(map.words);
  params.tiles = static_cast<int>(map.tiles);
  params.heads = static_cast<int>(map.heads);
  params.batches = static_cast<int>(map.batches);
  return params;
}

QueryPieceParams params_of(const QueryPieces& pieces) {
  QueryPieceParams params{};
  params.table = pieces.table;
  params.positions = {static_cast<int>(pieces.split), static_cast<int>(pieces.first),
                      static_cast<int>(pieces.second)};
  return params;
}

/// Returns the map that a caller holds for a step that reads one; null if there is none.
std::byte* held_bits_of(const Step& step, const Call& call) {
  if (step.texts.map_part.bytes == 0 || step.config.kernel == KernelId::key_map) return nullptr;
  const BlockMap* const map = attention_args_of(call).block_map;
  return map == nullptr ? nullptr : map->impl().find(step.config);
}

/// Returns the map that a step makes or reads; null if it has none.
std::byte* map_bits_of(const Step& step, const Call& call) {
  const StepTexts& texts = step.texts;
  if (std::byte* const held = held_bits_of(step, call)) return held;
  if (texts.constant_map) return texts.constant_map.get();
  return texts.map_part.bytes == 0 ? nullptr : call.scratch + texts.map_part.begin;
}

/// Returns the gradients that a step adds to, one per capture; null if it adds to none.
float* const* gradients_of(const StepTexts& texts, const Call& call) {
  return texts.have_gradients ? call.args.as<BackwardArgs>().d_captures : nullptr;
}

}  // namespace

const AttentionArgs& attention_args_of(const Call& call) {
  const BackwardArgs* const backward = call.args.find<BackwardArgs>();
  return backward != nullptr ? backward->forward : call.args.as<AttentionArgs>();
}

void set_texts(Step& step, const AttentionProblem& problem) {
  const KernelKind& kind = kind_of(step.config);
  const auto reads = [&](const char* trait) { return kind.reads == nullptr || kind.reads(trait); };
  step.texts.have_query_pieces = problem.query_pieces && reads("query_pieces");
  if (problem.score_text == 0 || !reads("score_text")) return;
  step.texts.captures = score_texts(problem.score_text).captures;
  step.texts.have_mask = has_mask_text(problem);
  step.texts.have_gradients =
      kind.pass == KernelPass::d_captures || score_tile_rules::adds_bias_gradient(problem, step.config);
  if (step.config.score_tiles != 0) step.texts.staged = capture_per_score(problem.score_text);
  if (step.config.key_map != 0) step.texts.map = key_map_layout(problem, step.config);
}

void insert_text_params(ParamsBuffer& params, const Step& step, const Call& call) {
  const StepTexts& texts = step.texts;
  const AttentionArgs& args = attention_args_of(call);
  std::array<CaptureParams, kMostCaptures> captures;
  const std::span given(args.captures, static_cast<std::size_t>(args.capture_count));
  std::ranges::transform(texts.captures, given, captures.begin(),
                         [](const CaptureSpec& spec, const ScoreCapture& of) { return params_of(spec, of); });
  if (float* const* const gradients = gradients_of(texts, call)) {
    for (std::size_t i = 0; i < texts.captures.size(); ++i)
      if (gradients[i] != nullptr)
        captures[i].number = static_cast<long long>(reinterpret_cast<std::uintptr_t>(gradients[i]));
  }
  params.insert(texts.place, captures.data(), texts.captures.size() * sizeof(CaptureParams));
  if (texts.have_mask) {
    const KeyMapParams key_map = params_of(texts.map, map_bits_of(step, call));
    params.insert(texts.place, &key_map, sizeof key_map);
  }
  if (texts.staged != kNoCapture) {
    const auto staged = static_cast<std::size_t>(texts.staged);
    const TensorMap map = map_of_scores(step.config, texts.captures[staged], args.captures[staged]);
    params.insert(texts.place, &map, sizeof map);
  }
  if (texts.have_query_pieces) {
    const QueryPieceParams pieces = params_of(args.query_pieces);
    params.insert(texts.place, &pieces, sizeof pieces);
  }
}

void add_text_memory(std::vector<MemoryRange>& ranges, const Step& step, const Call& call) {
  const StepTexts& texts = step.texts;
  float* const* const gradients = gradients_of(texts, call);
  const auto add = [&](const std::string& name, const ByteRange& bytes, Access access) {
    ranges.push_back({name, reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(bytes.begin)),
                      static_cast<std::size_t>(bytes.end - bytes.begin), access, true});
  };
  for (std::size_t i = 0; i < texts.captures.size(); ++i) {
    const CaptureSpec& spec = texts.captures[i];
    if (spec.dimensions == CaptureSpec::kNumber) continue;
    const ScoreCapture& capture = attention_args_of(call).captures[i];
    add(spec.name, captured_bytes(spec, capture), Access::read);
    if (gradients != nullptr && gradients[i] != nullptr)
      add(spec.name, gradient_bytes(spec, capture, gradients[i]), Access::read_write);
  }
  if (texts.have_gradients && !call.capture_sums.empty())
    ranges.push_back(
        {"sums of d_captures", call.capture_sums.data(), call.capture_sums.size(), Access::read_write, true});
  if (std::byte* const map = map_bits_of(step, call)) {
    const bool makes_map = step.config.kernel == KernelId::key_map;
    ranges.push_back({"key map", map, texts.map.bytes(), makes_map ? Access::write : Access::read,
                      !makes_map && (texts.constant_map != nullptr || held_bits_of(step, call) != nullptr)});
  }
}

}  // namespace fa2
