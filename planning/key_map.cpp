// One part of the scratch, which one step writes and the next one reads.
#include <core/text_reads.h>
#include <fa2/score_text.h>
#include <fmt/format.h>
#include <generator/key_map_layout.h>
#include <planning/key_map.h>
#include <planning/step_request.h>
#include <runtime/device_buffer.h>
#include <runtime/written_bytes.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {

ConfigChoice key_map_choice(const KernelConfig& config) {
  return {key_map_config(config), ConfigOrigin::heuristic, "the only kernel that maps what a mask shows", {}};
}

void add_key_map(Plan& plan, const AttentionProblem& problem, Step& reader,
                 std::shared_ptr<const Kernel> kernel, std::size_t begin) {
  Step map = kernels::key_map.make_step(
      {.problem = problem, .config = key_map_config(reader.config), .kernel = std::move(kernel)});
  map.texts.map_part = {.bytes = reader.texts.map.bytes(), .access = Access::write, .begin = begin};
  reader.texts.map_part = map.texts.map_part;
  reader.texts.map_part.access = Access::read;
  plan.add(std::move(map));
}

void launch_map(Step map, const std::shared_ptr<std::byte>& bits, const Call& call, Stream stream) {
  map.texts.constant_map = bits;
  WrittenBytes written;
  Call writing = call;
  writing.written = &written;
  launch(map, writing, stream);
}

namespace {

/// Counts the bits of a map in host memory.
MapCounts counted(const KeyMapLayout& layout, const std::vector<std::uint32_t>& words) {
  MapCounts counts{.blocks = layout.rows() * layout.blocks};
  const auto of_tile = static_cast<std::size_t>(layout.words);
  for (std::size_t tile = 0; tile < words.size(); tile += 2 * of_tile) {
    for (std::size_t i = tile; i < tile + of_tile; ++i) {
      counts.seen += std::popcount(words[i]);
      counts.whole += std::popcount(words[i] & words[i + of_tile]);
    }
  }
  return counts;
}

std::string note_of(const MapCounts& counts, const KernelConfig& config) {
  return fmt::format("the mask's text shows {} of {} blocks of {} x {}, {} of them in part", counts.seen,
                     counts.blocks, config.tile_m, config.tile_n, counts.seen - counts.whole);
}

}  // namespace

std::optional<MapCounts> make_constant_map(Plan& plan) {
  const AttentionProblem& problem = plan.problem;
  const auto makes_map = [](const Step& step) { return step.config.kernel == KernelId::key_map; };
  const auto found = std::ranges::find_if(plan.steps, makes_map);
  if (found == plan.steps.end() || problem.varlen || problem.query_pieces ||
      reads_of_mask(score_texts(problem.score_text)).captures)
    return std::nullopt;
  Step map = std::move(*found);
  plan.steps.erase(found);
  const auto buffer = std::make_shared<DeviceBuffer>(map.texts.map_part.bytes);
  const std::shared_ptr<std::byte> bits(buffer, static_cast<std::byte*>(buffer->data()));
  // What other texts capture does not matter here.
  const std::vector<ScoreCapture> captures(map.texts.captures.size());
  AttentionArgs args;
  args.captures = captures.data();
  args.capture_count = static_cast<std::int64_t>(captures.size());
  const Operands operands = operands_of(problem, args);
  const OwnedStream stream;
  launch_map(map, bits, {.problem = problem, .args = args, .operands = operands}, stream.get());
  std::vector<std::uint32_t> words(map.texts.map_part.bytes / sizeof(std::uint32_t));
  buffer->download(words.data(), map.texts.map_part.bytes, 0, stream.get());
  const MapCounts counts = counted(map.texts.map, words);
  plan.explanation.notes = joined_notes(plan.explanation.notes, note_of(counts, map.config));
  plan.workspace.scratch_bytes = 0;
  for (Step& step : plan.steps) {
    if (step.texts.map_part.bytes > 0) step.texts.map_part = {}, step.texts.constant_map = bits;
    if (step.scratch.bytes > 0)
      plan.workspace.scratch_bytes =
          std::max(plan.workspace.scratch_bytes, step.scratch.begin + whole_part(step.scratch.bytes));
  }
  return counts;
}

}  // namespace fa2
