// A wgmma reads and computes at issue, or in the wait that completes it.
#include <fmt/format.h>
#include <interpreter/matrix_descriptor.h>
#include <interpreter/text.h>
#include <interpreter/warpgroup_mma.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace fa2::interpreter {
namespace {

OperandLayout layout_a(const WgmmaShape& shape, const WgmmaOperands& operands) {
  return {operands.a_descriptor, shape.a_is_k_major};
}
OperandLayout layout_b(const WgmmaShape& shape, const WgmmaOperands& operands) {
  return {operands.b_descriptor, shape.b_is_k_major};
}

int first_row(int warp) {
  return warp % 4 * 16;
}

}  // namespace

WarpgroupMma::WarpgroupMma(Clocks& clocks, SharedMemory& shared, int rank, int warps, const Options& options)
    : clocks_(clocks),
      shared_(shared),
      rank_(rank),
      options_(options),
      warps_(static_cast<std::size_t>(warps)) {}

void WarpgroupMma::reset() {
  for (Warp& warp : warps_) warp = {};
}

std::string WarpgroupMma::issue(int index, const WgmmaShape& shape, const WgmmaOperands* const* lanes,
                                Site site) {
  Warp& warp = warps_[static_cast<std::size_t>(index)];
  if (auto broken = check_lanes(lanes); !broken.empty()) return broken;
  if (warp.fences == 0) return "wgmma with no wgmma.fence before it";
  Operation operation{shape, *lanes[0], {}, {}, lanes[0]->d, site};
  for (int lane = 0; lane < kLanes && lanes[0]->a != nullptr; ++lane) {
    operation.a_lanes[lane] = lanes[lane]->a;
    std::memcpy(operation.a_at_issue[lane], lanes[lane]->a, sizeof operation.a_at_issue[lane]);
  }
  if (auto broken = check_shared(index, operation); !broken.empty()) return broken;
  if (auto broken = check_fragment(warp, operation); !broken.empty()) return broken;
  if (auto broken = enter(warp, shape, lanes); !broken.empty()) return broken;
  Accumulator& accumulator = warp.accumulators.at(operation.accumulator);
  if (!options_.late) {
    compute(index, operation, accumulator.value);
    put(accumulator, false);
  } else if (accumulator.in_flight == 1) {
    put(accumulator, true);
  }
  warp.open.push_back(operation);
  return {};
}

std::string WarpgroupMma::check_lanes(const WgmmaOperands* const* lanes) const {
  const WgmmaOperands& first = *lanes[0];
  for (int lane = 1; lane < kLanes; ++lane) {
    const WgmmaOperands& other = *lanes[lane];
    if (other.a_descriptor != first.a_descriptor || other.b_descriptor != first.b_descriptor ||
        other.accumulate != first.accumulate)
      return fmt::format("wgmma with other descriptors, or another scale-d, in lane {} than in lane 0", lane);
  }
  if (!OperandLayout::is_plain(first.a_descriptor) || !OperandLayout::is_plain(first.b_descriptor))
    return "wgmma with a matrix descriptor that matrix_descriptor() has not made";
  return {};
}

std::string WarpgroupMma::check_shared(int index, const Operation& operation) {
  Warp& warp = warps_[static_cast<std::size_t>(index)];
  if (warp.agent < 0)
    warp.agent = clocks_.add_agent(fmt::format("wgmma of warp {}{}", index, clocks_.of_block(rank_)));
  SharedMemory::AsyncReader reader{first_thread(index), kLanes, {warp.agent, warp.opened}};
  std::string broken;
  const auto check = [&](std::uint32_t address, int, int) {
    if (broken.empty()) broken = shared_.read_async(reader, address, 16);
  };
  const int row = first_row(index);
  if (operation.operands.a == nullptr)
    layout_a(operation.shape, operation.operands).for_each_chunk(row, row + 16, check);
  layout_b(operation.shape, operation.operands).for_each_chunk(0, operation.shape.n, check);
  return broken;
}

/// Fails if the A registers changed since their last wgmma and no wgmma.fence followed.
std::string WarpgroupMma::check_fragment(Warp& warp, const Operation& operation) {
  if (operation.operands.a == nullptr || !options_.checks) return {};
  const auto [at, is_new] = warp.fragments.try_emplace(operation.operands.a);
  FragmentA& fragment = at->second;
  const bool changed = std::memcmp(fragment.value, operation.a_at_issue, sizeof fragment.value) != 0;
  if (!is_new && changed && fragment.fences == warp.fences)
    return "wgmma with A registers that were written with no wgmma.fence since";
  std::memcpy(fragment.value, operation.a_at_issue, sizeof fragment.value);
  fragment.fences = warp.fences;
  return {};
}

/// Marks the accumulators as in flight.
std::string WarpgroupMma::enter(Warp& warp, const WgmmaShape& shape, const WgmmaOperands* const* lanes) {
  float* const key = lanes[0]->d;
  const int count = shape.n / 2;
  for (const auto& [first, other] : warp.accumulators) {
    const bool overlaps = first < key + count && key < first + other.count;
    if (overlaps && other.in_flight > 0 && (first != key || other.count != count))
      return "wgmma with accumulators that a wgmma of another shape has in flight";
  }
  Accumulator& accumulator = warp.accumulators[key];
  if (accumulator.in_flight++ > 0) {
    if (holds(accumulator)) return {};
    return "wgmma with accumulators that were touched while an earlier wgmma had them in flight";
  }
  const bool known = accumulator.count == count && accumulator.fences == warp.fences;
  Registers now(static_cast<std::size_t>(kLanes * count));
  for (int lane = 0; lane < kLanes; ++lane) {
    accumulator.lanes[lane] = lanes[lane]->d;
    std::copy_n(lanes[lane]->d, count, now.data() + lane * count);
  }
  const bool changed =
      known && std::memcmp(now.data(), accumulator.value.data(), now.size() * sizeof(float)) != 0;
  accumulator.count = count;
  accumulator.value = std::move(now);
  if (changed && options_.checks)
    return "wgmma with accumulators that were written with no wgmma.fence since";
  return {};
}

void WarpgroupMma::commit_group(int index) {
  Warp& warp = warps_[static_cast<std::size_t>(index)];
  warp.committed.push_back(std::exchange(warp.open, {}));
  ++warp.opened;
}

std::string WarpgroupMma::wait_group(int index, int pending) {
  Warp& warp = warps_[static_cast<std::size_t>(index)];
  for (; warp.committed.size() > static_cast<std::size_t>(pending); warp.committed.pop_front()) {
    for (const Operation& operation : warp.committed.front()) {
      if (auto broken = complete(warp, index, operation); !broken.empty()) return broken;
    }
  }
  if (warp.agent < 0) return {};
  const auto newest = warp.opened - static_cast<std::uint32_t>(warp.committed.size()) - 1;
  const int first = first_thread(index);
  for (int thread = first; thread < first + kLanes; ++thread) clocks_.learn(thread, {warp.agent, newest});
  return {};
}

std::string WarpgroupMma::complete(Warp& warp, int index, const Operation& operation) {
  for (int lane = 0; operation.operands.a != nullptr && options_.checks && lane < kLanes; ++lane) {
    if (std::memcmp(operation.a_lanes[lane], operation.a_at_issue[lane], sizeof operation.a_at_issue[lane]) !=
        0)
      return fmt::format("A registers of the wgmma at {} were written before its wait",
                         text_of(operation.site));
  }
  Accumulator& accumulator = warp.accumulators.at(operation.accumulator);
  if (accumulator.in_flight == 1 && !holds(accumulator))
    return fmt::format("accumulators of the wgmma at {} were written before its wait",
                       text_of(operation.site));
  if (options_.late) compute(index, operation, accumulator.value);
  if (--accumulator.in_flight > 0) return {};
  put(accumulator, false);
  accumulator.fences = warp.fences;
  return {};
}

bool WarpgroupMma::holds(const Accumulator& accumulator) const {
  if (!options_.checks) return true;
  const auto bytes = static_cast<std::size_t>(accumulator.count) * sizeof(float);
  const std::vector<unsigned char> poison(bytes, 0xff);
  for (int lane = 0; lane < kLanes; ++lane) {
    const void* const expected = options_.late ? static_cast<const void*>(poison.data())
                                               : accumulator.value.data() + lane * accumulator.count;
    if (std::memcmp(accumulator.lanes[lane], expected, bytes) != 0) return false;
  }
  return true;
}

void WarpgroupMma::put(const Accumulator& accumulator, bool poisoned) const {
  const auto bytes = static_cast<std::size_t>(accumulator.count) * sizeof(float);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (poisoned)
      std::memset(accumulator.lanes[lane], 0xff, bytes);
    else
      std::memcpy(accumulator.lanes[lane], accumulator.value.data() + lane * accumulator.count, bytes);
  }
}

double WarpgroupMma::element(const WgmmaShape& shape, std::uint32_t address, int i) const {
  std::uint16_t bits;
  std::memcpy(&bits, shared_.peek(address) + 2 * i, sizeof bits);
  return static_cast<double>(shape.value_of(bits));
}

/// Reads the warp's 16 rows of A.
void WarpgroupMma::read_a(int index, const Operation& operation, double (&a)[16][kK]) const {
  const WgmmaShape& shape = operation.shape;
  if (operation.operands.a == nullptr) {
    const int row = first_row(index);
    layout_a(shape, operation.operands)
        .for_each_chunk(row, row + 16, [&](std::uint32_t address, int m, int k) {
          for (int i = 0; i < 8; ++i)
            a[(shape.a_is_k_major ? m : m + i) - row][shape.a_is_k_major ? k + i : k] =
                element(shape, address, i);
        });
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const auto bits = static_cast<unsigned short>(operation.a_lanes[lane][i / 2] >> 16 * (i % 2));
      a[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i / 4 * 8 + i % 2] =
          static_cast<double>(shape.value_of(bits));
    }
  }
}

void WarpgroupMma::read_b(const Operation& operation, double (&b)[kK][kMaxN]) const {
  const WgmmaShape& shape = operation.shape;
  layout_b(shape, operation.operands).for_each_chunk(0, shape.n, [&](std::uint32_t address, int n, int k) {
    for (int i = 0; i < 8; ++i)
      b[shape.b_is_k_major ? k + i : k][shape.b_is_k_major ? n : n + i] = element(shape, address, i);
  });
}

/// Computes exact products, sums them in double and rounds once; a GPU is no more accurate.
void WarpgroupMma::compute(int index, const Operation& operation, Registers& d) const {
  const int n = operation.shape.n, count = n / 2;
  double a[16][kK], b[kK][kMaxN];
  read_a(index, operation, a);
  read_b(operation, b);
  for (int row = 0; row < 16; ++row) {
    const auto accumulator = [&](int col) -> float& {
      const int lane = row % 8 * 4 + col % 8 / 2;
      return d.data()[lane * count + col / 8 * 4 + row / 8 * 2 + col % 2];
    };
    double sum[kMaxN];
    for (int col = 0; col < n; ++col)
      sum[col] = operation.operands.accumulate ? static_cast<double>(accumulator(col)) : 0.0;
    for (int k = 0; k < kK; ++k) {
      for (int col = 0; col < n; ++col) sum[col] += a[row][k] * b[k][col];
    }
    for (int col = 0; col < n; ++col) accumulator(col) = static_cast<float>(sum[col]);
  }
}

std::string WarpgroupMma::finish(Site& site) const {
  for (const Warp& warp : warps_) {
    for (const auto& group : warp.committed) {
      if (group.empty()) continue;
      site = group.front().site;
      return "the block ended with a wgmma in flight, which no wgmma.wait_group covers";
    }
    if (warp.open.empty()) continue;
    site = warp.open.front().site;
    return "the block ended with a wgmma that no wgmma.commit_group follows";
  }
  return {};
}

}  // namespace fa2::interpreter
