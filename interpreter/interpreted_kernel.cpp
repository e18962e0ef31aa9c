// Loads a binary from memory with dlopen, and runs clusters on host threads.
#include <core/arch.h>
#include <dlfcn.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <interpreter/block_observer.h>
#include <interpreter/block_signals.h>
#include <interpreter/cluster.h>
#include <interpreter/interpreted_kernel.h>
#include <runtime/file.h>
#include <runtime/log.h>
#include <runtime/parallel.h>
#include <runtime/written_bytes.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace fa2::interpreter {
namespace {

/// A shared object that exists in memory only.
class LoadedObject {
 public:
  explicit LoadedObject(const KernelBinary& binary) : file_(::memfd_create("fa2-kernel", MFD_CLOEXEC)) {
    const std::byte* from = binary.code.data();
    for (std::size_t left = binary.code.size(); left > 0;) {
      const ssize_t written = ::write(file_.get(), from, left);
      if (written <= 0) throw_file_error("cannot write", "a file in memory", errno);
      from += written;
      left -= static_cast<std::size_t>(written);
    }
    // Not /proc/self, because a debugger opens the same name to read the symbols.
    handle_ = ::dlopen(fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr)
      throw Unavailable(fmt::format("{} cannot be loaded: {}", binary.spec, ::dlerror()));
  }
  ~LoadedObject() { ::dlclose(handle_); }
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  template <class Function>
  Function symbol(const std::string& name) const {
    void* const found = ::dlsym(handle_, name.c_str());
    if (found == nullptr)
      throw Unavailable(fmt::format("the interpreted kernel lacks {}: {}", name, ::dlerror()));
    return reinterpret_cast<Function>(found);
  }

 private:
  FileDescriptor file_;  ///< stays open, because dlopen identifies loaded objects by name, and thus by this
                         ///< number
  void* handle_ = nullptr;
};

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
