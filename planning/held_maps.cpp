// Keeps maps by the tiles of the kernels that read them.
#include <fa2/score_text.h>
#include <fmt/format.h>
#include <generator/key_map_layout.h>
#include <planning/held_maps.h>
#include <planning/key_map.h>
#include <planning/text_params.h>
#include <runtime/device_buffer.h>
#include <runtime/log.h>
#include <runtime/written_bytes.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace fa2 {
namespace {

/// Returns the fields that decide which blocks of which tiles are seen; others have their defaults.
AttentionProblem shape_of(const AttentionProblem& p) {
  AttentionProblem shape;
  shape.score_text = p.score_text;
  shape.batch = p.batch, shape.heads_q = p.heads_q, shape.heads_kv = p.heads_kv;
  shape.seqlen_q = p.seqlen_q, shape.seqlen_k = p.seqlen_k;
  shape.varlen = p.varlen, shape.total_q = p.total_q, shape.total_k = p.total_k;
  shape.mask = p.mask, shape.window_left = p.window_left, shape.window_right = p.window_right;
  shape.attention_chunk = p.attention_chunk, shape.query_pieces = p.query_pieces;
  return shape;
}

template <class Value>
std::string text_of(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return std::string(to_string(value));
  } else if constexpr (requires { value.has_value(); }) {
    return value ? fmt::format("{}", *value) : "none";
  } else {
    return fmt::format("{}", value);
  }
}

bool makes_map(const Step& step) {
  return step.config.kernel == KernelId::key_map;
}

}  // namespace

BlockMap::BlockMap(std::uint64_t version) : maps_(std::make_shared<HeldMaps>(version)) {}
std::uint64_t BlockMap::version() const {
  return maps_->version();
}
std::size_t BlockMap::bytes() const {
  return maps_->bytes();
}

std::size_t HeldMaps::bytes() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(entries_.begin(), entries_.end(), std::size_t{0},
                         [](std::size_t sum, const Entry& entry) { return sum + entry.bytes; });
}

void HeldMaps::check(std::vector<Violation>& found, const AttentionProblem& problem,
                     const AttentionArgs& args, int device) const {
  if (args.block_map_version != version_)
    found.push_back(
        {"block_map_version", fmt::format("{}", args.block_map_version),
         fmt::format("must be {}, the map's: make another map of what captures hold now", version_)});
  const std::lock_guard lock(mutex_);
  if (!shape_) return;
  const AttentionProblem shape = shape_of(problem);
  AttentionProblem::visit(
      [&](const char* name, FieldRole, const auto& mapped, const auto& called) {
        if (mapped == called) return;
        found.push_back({"block_map", fmt::format("of {} = {}", name, text_of(mapped)),
                         fmt::format("must be a map of {} = {}, the call's", name, text_of(called))});
      },
      *shape_, shape);
  if (device_ != device)
    found.push_back({"block_map", fmt::format("of device {}", device_),
                     fmt::format("must be a map of device {}, the call's", device)});
}

std::byte* HeldMaps::find(const KernelConfig& config) const {
  const KernelConfig maker = key_map_config(config);
  const std::lock_guard lock(mutex_);
  const auto entry = std::ranges::find(entries_, maker, &Entry::config);
  return entry == entries_.end() ? nullptr : entry->bits.get();
}

std::shared_ptr<std::byte> HeldMaps::bits_of(const KernelConfig& config) const {
  const std::lock_guard lock(mutex_);
  const auto entry = std::ranges::find(entries_, config, &Entry::config);
  return entry == entries_.end() ? nullptr : entry->bits;
}

void HeldMaps::keep(const AttentionProblem& problem, int device, const KernelConfig& config,
                    std::shared_ptr<std::byte> bits, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  shape_ = shape_of(problem), device_ = device;
  if (std::ranges::find(entries_, config, &Entry::config) == entries_.end())
    entries_.push_back({config, std::move(bits), bytes});
}

std::shared_ptr<std::byte> map_memory(std::size_t bytes) {
  const auto buffer = std::make_shared<DeviceBuffer>(bytes);
  return {buffer, static_cast<std::byte*>(buffer->data())};
}

void map_blocks(const Plan& plan, const AnyRef& args, OperandList operands, HeldMaps& maps, Stream stream,
                const AllocateMap& allocate) {
  const auto found = std::ranges::find_if(plan.steps, makes_map);
  if (found == plan.steps.end()) return;
  const std::size_t bytes = found->texts.map_part.bytes;
  auto bits = maps.bits_of(found->config);
  if (bits == nullptr) bits = allocate(bytes);
  const AttentionProblem& problem = plan.widened ? *plan.widened : plan.problem;
  launch_map(*found, bits, {.problem = problem, .args = args, .operands = operands}, stream);
  maps.keep(plan.problem, plan.device, found->config, bits, bytes);
}

bool lacks_map(const Plan& plan, const HeldMaps& maps) {
  const auto found = std::ranges::find_if(plan.steps, makes_map);
  return found != plan.steps.end() && maps.bits_of(found->config) == nullptr;
}

void check_block_map(std::vector<Violation>& found, const AttentionProblem& problem,
                     const AttentionArgs& args, int device) {
  if (args.block_map == nullptr) {
    if (args.block_map_version != 0)
      found.push_back({"block_map_version", fmt::format("{}", args.block_map_version),
                       "must be 0: the call has no block_map"});
    return;
  }
  if (has_mask_text(problem)) return args.block_map->impl().check(found, problem, args, device);
  found.push_back({"block_map", "given", "must be null, or the problem's score_text have a mask"});
}

bool is_held(const Step& step, const Call& call) {
  if (!makes_map(step)) return false;
  const BlockMap* const map = attention_args_of(call).block_map;
  if (map == nullptr) return false;
  if (map->impl().find(step.config) != nullptr) return true;
  const std::string tiles = fmt::format("{} x {}", step.config.tile_m, step.config.tile_n);
  warn_once("block_map " + tiles,
            fmt::format(
                "a block_map has no map for tiles of {}, which the call's kernel has: its launches make one "
                "each. Call map_blocks() for this problem, of the forward or the backward",
                tiles));
  return false;
}

}  // namespace fa2
