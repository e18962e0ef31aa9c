// Starts a thread per rank and gives it a communicator.
#include "ranks.h"

#include <fa2/nccl_communicator.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "../model/driver.h"
#include "thread_communicator.h"

namespace example {
namespace {

[[noreturn]] void end_program(int rank, const char* reason) {
  static std::mutex only_one;
  const std::lock_guard lock(only_one);  // never unlocked: the first rank that fails ends the program
  std::fflush(stdout);
  std::fprintf(stderr, "fa2_train: rank %d: %s\n", rank, reason);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

void run_ranks(int ranks, bool on_gpu, const std::function<void(fa2::Communicator&)>& body) {
  const fa2::NcclId id =
      on_gpu ? fa2::make_nccl_id() : fa2::NcclId{};  // other processes would get it by a file or socket
  MeetingPoint meeting(ranks);
  const auto run_rank = [&](int rank) {
    try {
      if (on_gpu) {
        use_gpu(rank);
        body(*fa2::init_nccl(id, ranks, rank));
      } else {
        ThreadCommunicator communicator(meeting, rank);
        body(communicator);
      }
    } catch (const std::exception& error) {
      end_program(rank, error.what());
    }
  };
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
}

}  // namespace example
