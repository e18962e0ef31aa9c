// Attention over sharded tokens on two processes that share a GPU, through memory that both map. This process is rank 0, and starts itself as
// rank 1.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <fmt/format.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../support/shard_runs.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using reference::Tensor;

constexpr const char* kPipes = "TEST_PEER_PIPES";  ///< "READ WRITE": the pipes of rank 1

/// One of two processes, which tell each other host memory through pipes.
class PipeCommunicator final : public Communicator {
 public:
  PipeCommunicator(int rank, int from, int to) : rank_(rank), from_(from), to_(to) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return 2; }
  bool allows_peer_memory() const noexcept override { return true; }

  std::uint64_t exchange(const Transfer*, std::size_t, Stream) override {
    throw CommunicationError("messages must not travel by pipes", rank_);
  }

  void all_gather(const void* mine, std::size_t bytes, void* all) override {
    auto* const parts = static_cast<char*>(all);
    std::memcpy(parts + static_cast<std::size_t>(rank_) * bytes, mine, bytes);
    char* const other = parts + static_cast<std::size_t>(1 - rank_) * bytes;
    // Rank 1 answers, so that no pipe need hold more than its capacity.
    for (const bool writes : {rank_ == 0, rank_ != 0}) writes ? move(mine, bytes) : fill(other, bytes);
  }

  void check() override {}

 private:
  void move(const void* data, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t count = write(to_, static_cast<const char*>(data) + done, bytes - done);
      if (count <= 0) throw CommunicationError("the other process has ended", rank_);
      done += static_cast<std::size_t>(count);
    }
  }
  void fill(char* data, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t count = read(from_, data + done, bytes - done);
      if (count <= 0) throw CommunicationError("the other process has ended", rank_);
      done += static_cast<std::size_t>(count);
    }
  }

  int rank_, from_, to_;
};

/// Another process of this program, which is rank 1.
class OtherProcess {
 public:
  OtherProcess() {
    std::array<int, 2> down{}, up{};
    REQUIRE(pipe(down.data()) == 0);
    REQUIRE(pipe(up.data()) == 0);
    from_ = up[0], to_ = down[1];
    std::vector<std::string> variables{fmt::format("{}={} {}", kPipes, down[0], up[1])};
    for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
    std::vector<char*> pointers;
    for (std::string& variable : variables) pointers.push_back(variable.data());
    pointers.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "-tc=peer memory: rank 1 of two processes";
    std::array<char*, 3> arguments{program.data(), filter.data(), nullptr};
    REQUIRE(posix_spawn(&process_, program.c_str(), nullptr, nullptr, arguments.data(), pointers.data()) ==
            0);
    close(down[0]), close(up[1]);
  }
  ~OtherProcess() {
    close(from_), close(to_);
    if (process_ != 0) waitpid(process_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  PipeCommunicator communicator() const { return {0, from_, to_}; }

  /// Waits until it has ended. Returns its exit status.
  int status() {
    int status = -1;
    waitpid(std::exchange(process_, 0), &status, 0);
    return status;
  }

 private:
  int from_ = -1, to_ = -1;
  pid_t process_ = 0;
};

/// Checks a rank's outputs and gradients, by groups and in stages, against one device, then gives up a run of rank 0.
void expect_rank(Communicator& own) {
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const auto rank = static_cast<std::size_t>(own.rank());
  const ShardedCase of = sharded_cases(1500, 1)[0];
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  run_and_expect_contract(context, whole.forward);
  const Tensor out = whole.forward.out(), lse{out.batch, out.heads, out.rows, 1, whole.forward.lse()};
  const ShardLayout layout = ShardLayout::zigzag(of.tokens(), 2);
  const Gradients gradients{.determinism = Determinism::bitwise};
  for (const ContextParallelScheme scheme :
       {ContextParallelScheme::gather_heads, ContextParallelScheme::staged,
        ContextParallelScheme::all_to_all}) {
    const int groups = scheme == ContextParallelScheme::gather_heads ? 2 : 0;
    const ContextParallelPlan plan = context.context_parallel_plan(
        of.problem, layout, own, {.scheme = scheme, .groups = groups, .gradients = gradients});
    CHECK(plan.explain().transport == "copy engines, into memory that ranks map");
    const ShardCall call(whole, layout.ranks[rank], guarded_bshd);
    Tensor dk;
    for (int run = 0; run < 20; ++run) {
      plan.run(call.forward());
      plan.run_backward(call.backward(gradients));
      if (run == 0) dk = call.dk();
      CHECK(call.dk().values == dk.values);
    }
    const Tensor expected = rows_of(out, layout.ranks[rank]);
    CHECK(reference::errors_of(call.out(), expected).largest <= 0.02);
    const Tensor sums = rows_of(lse, layout.ranks[rank]);
    CHECK(reference::errors_of({sums.batch, sums.heads, sums.rows, 1, call.lse()}, sums).largest <= 1e-4);
  }
  const auto meet = [&] {
    std::array<char, 2> all{};
    own.all_gather("", 1, all.data());
  };
  if (own.rank() == 1) {
    const ContextParallelPlan idle = context.context_parallel_plan(of.problem, layout, own, {});
    return meet();
  }
  const OwnedStream stream;
  const ShardCall call(whole, layout.ranks[rank], guarded_bshd);  // freed later, because that would wait
  {
    const ContextParallelPlan plan = context.context_parallel_plan(of.problem, layout, own, {});
    plan.run(call.forward(), stream.get());
    CHECK_FALSE(stream.is_idle());
  }
  stream.synchronize();  // would last for ever if the plan had not ended the wait for rank 1
  meet();
}

}  // namespace

TEST_CASE("peer memory: two processes compute what one device computes, and a plan's end ends its waits") {
  if (cannot_run()) return;
  OtherProcess other;
  PipeCommunicator own = other.communicator();
  expect_rank(own);
  CHECK(other.status() == 0);
}

TEST_CASE("peer memory: rank 1 of two processes") {
  const char* const pipes = std::getenv(kPipes);
  if (pipes == nullptr) {
    MESSAGE("skipped: rank 0's test starts it");
    return;
  }
  const std::string text = pipes;
  PipeCommunicator own(1, std::stoi(text), std::stoi(text.substr(text.find(' '))));
  expect_rank(own);
}
