// Loads a binary from memory with dlopen, and runs blocks on host threads.
#include <core/arch.h>
#include <dlfcn.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <interpreter/block.h>
#include <interpreter/block_observer.h>
#include <interpreter/block_signals.h>
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
        attach_(object_.symbol<void (*)(Machine*)>("fa2_interpreter_attach")),
        name_(binary.spec),
        threads_(binary.resources.threads),
        shared_bytes_(static_cast<std::uint32_t>(binary.resources.dynamic_shared_bytes)),
        registers_(registers_at_launch(threads_, object_.symbol<int (*)()>("fa2_interpreter_ctas_per_sm")())),
        options_(options) {}

  void launch(const LaunchShape& shape, const void* params, std::size_t, Stream,
              const LaunchMemory* memory) const override {
    require_whole_clusters(shape);
    WrittenBytes alone;
    WrittenBytes* const run = memory != nullptr ? memory->written() : nullptr;
    GlobalMemory global(memory != nullptr ? memory->ranges() : std::vector<MemoryRange>{},
                        run != nullptr ? *run : alone);
    BankCounts banks;
    std::mutex mutex;
    std::vector<std::unique_ptr<Block>> idle;
    const BlockObserver* const observer = ScopedBlockObserver::current();
    std::size_t done = 0;
    const int cores = usable_cores();
    BlockSignals signals(shape.grid, std::min<std::size_t>(shape.grid, static_cast<std::size_t>(cores)));
    for_each_index(shape.grid, cores, [&](std::size_t index) {
      std::unique_ptr<Block> block;
      {
        const std::lock_guard lock(mutex);
        if (!idle.empty()) {
          block = std::move(idle.back());
          idle.pop_back();
        }
      }
      if (!block) block = std::make_unique<Block>(name_, threads_, shared_bytes_, registers_, options_);
      attach_(block.get());
      run_block(*block, {static_cast<unsigned>(index), shape.cluster}, params, global, signals);
      const std::lock_guard lock(mutex);
      idle.push_back(std::move(block));
      ++done;
      if (observer != nullptr) (*observer)(done, shape.grid);
    });
    for (const auto& block : idle) {
      for (const auto& [site, count] : block->banks()) {
        banks[site].wavefronts += count.wavefronts;
        banks[site].least += count.least;
      }
    }
    report(banks);
  }

 private:
  void run_block(Block& block, const BlockPlace& place, const void* params, GlobalMemory& global,
                 BlockSignals& signals) const {
    signals.block_begins();
    try {
      block.run(entry_, params, place, global, signals);
    } catch (...) {
      signals.give_up();
      throw;
    }
    signals.block_ends();
  }

  void report(const BankCounts& banks) const {
    for (const auto& [site, count] : banks) {
      if (count.wavefronts == count.least) continue;
      log().info("bank conflicts of {} at {}:{}: {} wavefronts, {} would suffice", name_, site.first,
                 site.second, count.wavefronts, count.least);
    }
  }

  LoadedObject object_;
  Block::Entry entry_;
  void (*attach_)(Machine*);
  std::string name_;
  int threads_;
  std::uint32_t shared_bytes_;
  int registers_;
  Options options_;
};

}  // namespace

std::shared_ptr<const Kernel> load_interpreted_kernel(const KernelBinary& binary, const Options& options) {
  return std::make_shared<InterpretedKernel>(binary, options);
}

}  // namespace fa2::interpreter
