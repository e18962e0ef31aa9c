// Runs clusters on host threads.
#include <core/arch.h>
#include <fmt/format.h>
#include <interpreter/block_observer.h>
#include <interpreter/block_signals.h>
#include <interpreter/cluster.h>
#include <interpreter/interpreted_kernel.h>
#include <interpreter/loaded_object.h>
#include <runtime/log.h>
#include <runtime/parallel.h>
#include <runtime/written_bytes.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace fa2::interpreter {
namespace {

/// Returns the registers per thread that ptxas allocates for a kernel with setmaxnreg.
int registers_at_launch(int threads, int ctas_per_sm) {
  return std::min(interpreter_arch().registers_per_sm / (threads * ctas_per_sm) / 8 * 8, 256);
}

class InterpretedKernel final : public Kernel {
 public:
  InterpretedKernel(const KernelBinary& binary, const Options& options)
      : object_(binary),
        entry_(object_.symbol<Block::Entry>(binary.entry)),
        attach_(object_.symbol<Cluster::Attach>("fa2_interpreter_attach")),
        shape_{binary.spec, binary.resources.threads,
               static_cast<std::uint32_t>(binary.resources.dynamic_shared_bytes),
               registers_at_launch(binary.resources.threads,
                                   object_.symbol<int (*)()>("fa2_interpreter_ctas_per_sm")()),
               options} {}

  void launch(const LaunchShape& shape, const void* params, std::size_t, Stream,
              const LaunchMemory* memory) const override {
    require_whole_clusters(shape);
    WrittenBytes alone;
    WrittenBytes* const run = memory != nullptr ? memory->written() : nullptr;
    GlobalMemory global(memory != nullptr ? memory->ranges() : std::vector<MemoryRange>{},
                        run != nullptr ? *run : alone, shape.begins_early);
    BankCounts banks;
    std::mutex mutex;
    std::vector<std::unique_ptr<Cluster>> idle;
    const BlockObserver* const observer = ScopedBlockObserver::current();
    std::size_t done = 0;
    const int cores = usable_cores();
    const std::size_t clusters = shape.grid / shape.cluster;
    BlockSignals signals(clusters, std::min<std::size_t>(clusters, static_cast<std::size_t>(cores)));
    for_each_index(clusters, cores, [&](std::size_t index) {
      std::unique_ptr<Cluster> cluster;
      {
        const std::lock_guard lock(mutex);
        if (!idle.empty()) {
          cluster = std::move(idle.back());
          idle.pop_back();
        }
      }
      if (!cluster) cluster = std::make_unique<Cluster>(shape_, static_cast<int>(shape.cluster), attach_);
      run_cluster(*cluster, static_cast<unsigned>(index) * shape.cluster, params, global, signals);
      const std::lock_guard lock(mutex);
      idle.push_back(std::move(cluster));
      done += shape.cluster;
      if (observer != nullptr) (*observer)(done, shape.grid);
    });
    for (const auto& cluster : idle) {
      for (int rank = 0; rank < cluster->size(); ++rank) add(cluster->block(rank).banks(), banks);
    }
    report(banks);
  }

 private:
  void run_cluster(Cluster& cluster, unsigned first_block, const void* params, GlobalMemory& global,
                   BlockSignals& signals) const {
    signals.cluster_begins();
    try {
      cluster.run(entry_, params, first_block, global, signals);
    } catch (...) {
      signals.give_up();
      throw;
    }
    signals.cluster_ends();
  }

  static void add(const BankCounts& more, BankCounts& banks) {
    for (const auto& [site, count] : more) {
      banks[site].wavefronts += count.wavefronts;
      banks[site].least += count.least;
    }
  }

  void report(const BankCounts& banks) const {
    for (const auto& [site, count] : banks) {
      if (count.wavefronts == count.least) continue;
      log().info("bank conflicts of {} at {}:{}: {} wavefronts, {} would suffice", shape_.name, site.first,
                 site.second, count.wavefronts, count.least);
    }
  }

  LoadedObject object_;
  Block::Entry entry_;
  Cluster::Attach attach_;
  BlockShape shape_;
};

}  // namespace

std::shared_ptr<const Kernel> load_interpreted_kernel(const KernelBinary& binary, const Options& options) {
  return std::make_shared<InterpretedKernel>(binary, options);
}

}  // namespace fa2::interpreter
