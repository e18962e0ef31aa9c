// Looks in memory, in read-only directories and in the user's directory, then compiles, once per kernel.
#include <fa2/context.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/kernel_cache.h>
#include <runtime/log.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

namespace fa2 {
namespace {

[[noreturn]] void throw_not_cached(const KernelSource& source, const std::string& searched) {
  const bool interpreted = source.arch.interpreted;
  throw Unavailable(
      fmt::format("no cache holds this kernel, and FA2_JIT=off forbids compiling it\n"
                  "kernel: {}, key {}\nsearched:{}\n"
                  "to build it, run on a machine with {}: {}\n"
                  "then set FA2_CACHE_PATH=DIR{}",
                  source.spec, source.key, searched.empty() ? " no directory or pack is set" : searched,
                  interpreted ? "a C++ compiler" : "NVRTC (no GPU needed)", source.precompile_command,
                  interpreted ? " and FA2_CACHE_TRUST=host" : ""));
}

/// Adds which version of fa2 rendered the kernel, and from which templates.
KernelBinary labelled(KernelBinary binary, const KernelSource& source) {
  const auto templates = std::ranges::find(source.key_parts, "templates", &KeyPart::name);
  if (templates != source.key_parts.end()) binary.templates = templates->value;
  binary.library = version();
  return binary;
}

/// Returns whether a retry must fail again. Only a CompileError, which judges the source, is final.
bool is_final(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const CompileError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

KernelCache::KernelCache(std::shared_ptr<Compiler> compiler, Stores read_only,
                         std::shared_ptr<const WritableStore> user, JitMode jit)
    : compiler_(std::move(compiler)), read_only_(std::move(read_only)), user_(std::move(user)), jit_(jit) {}

CachedKernel KernelCache::get(const KernelSource& source, const std::function<void()>& before_compiling) {
  const auto start = std::chrono::steady_clock::now();
  std::promise<CachedKernel> promise;
  std::shared_future<CachedKernel> future;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    auto [it, inserted] = entries_.try_emplace(source.key);
    first = inserted;
    if (first) it->second = promise.get_future().share();
    future = it->second;
  }
  if (first) {
    try {
      promise.set_value(find_or_compile(source, before_compiling));
    } catch (...) {
      if (!is_final(std::current_exception())) {
        const std::lock_guard lock(mutex_);
        entries_.erase(source.key);
      }
      promise.set_exception(std::current_exception());
    }
  }
  CachedKernel kernel = future.get();
  if (!first) kernel.origin = KernelOrigin::memory;
  kernel.wait_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return kernel;
}

/// The result of searching the directories.
struct KernelCache::Search {
  std::string places;  ///< one line each, for an error
  std::string notes;
};

/// Returns the first usable kernel. If there is none, throws the first cached refusal that still applies.
std::optional<CachedKernel> KernelCache::look_up(const KernelSource& source, Search& search) const {
  std::vector<CachedKernel> refusals;
  const auto found_in = [&](const KernelStore& cache, KernelOrigin origin) -> std::optional<CachedKernel> {
    const std::string arch(source.arch.name);
    std::string untrusted;
    auto binary = cache.load(arch, source.key, &untrusted);
    search.places += "\n  " + cache.description() + (untrusted.empty() ? "" : " (" + untrusted + ")");
    if (!untrusted.empty()) search.notes += (search.notes.empty() ? "" : "\n") + untrusted;
    if (!binary) return std::nullopt;
    CachedKernel kernel{std::make_shared<const KernelBinary>(std::move(*binary)), origin,
                        cache.path_of(arch, source.key).native(), 0, ""};
    if (kernel.binary->refused.empty()) return kernel;
    refusals.push_back(std::move(kernel));
    return std::nullopt;
  };
  std::optional<CachedKernel> kernel;
  for (const auto& store : read_only_) {
    if (!kernel) kernel = found_in(*store, KernelOrigin::read_only_cache);
  }
  if (!kernel && user_) kernel = found_in(*user_, KernelOrigin::disk_cache);
  if (kernel) {
    kernel->notes = search.notes;
    return kernel;
  }
  for (const CachedKernel& refusal : refusals) {
    if (!stands(*refusal.binary, source.arch)) continue;
    throw KernelRefused(fmt::format("{}: {}; this refusal is cached in {}: remove the file to compile again",
                                    source.spec, refusal.binary->refused, refusal.path),
                        refusal.binary->refused, "", "");
  }
  return std::nullopt;
}

/// Returns whether the refusal still applies: same compiler and rules, or compiling is impossible.
bool KernelCache::stands(const KernelBinary& refusal, const Arch& arch) const {
  if (jit_ == JitMode::off) return true;
  try {
    return compiler_->judge(arch) == refusal.compiler;
  } catch (const Unavailable&) {
    return true;
  }
}

std::string KernelCache::other_versions(const KernelSource& source) const {
  std::call_once(listed_, [&] {
    for (const auto& store : read_only_) std::ranges::move(store->entries(), std::back_inserter(listing_));
  });
  std::string notes;
  for (const CacheEntry& entry : listing_) {
    const KernelBinary& other = entry.binary;
    if (other.spec != source.spec || other.arch != source.arch.name || other.key == source.key) continue;
    const std::string note = fmt::format(
        "{} is not used: fa2 {} made it from other sources than this fa2 {}: make it again",
        entry.path.native(), other.library.empty() ? "of another version" : other.library, version());
    warn_once("version " + entry.path.native(), note);
    notes += (notes.empty() ? "" : "\n") + note;
  }
  return notes;
}

CachedKernel KernelCache::find_or_compile(const KernelSource& source,
                                          const std::function<void()>& before_compiling) {
  Search search;
  if (auto kernel = look_up(source, search)) return std::move(*kernel);
  const std::string others = other_versions(source);
  if (!others.empty()) search.notes += (search.notes.empty() ? "" : "\n") + others;
  if (jit_ == JitMode::off) throw_not_cached(source, search.places + (others.empty() ? "" : "\n" + others));

  std::optional<StoreLock> lock;
  if (user_) lock.emplace(user_->lock(std::string(source.arch.name), source.key));
  // Another process may have published it in the meantime.
  Search again;
  if (auto kernel = look_up(source, again)) return std::move(*kernel);

  if (before_compiling) before_compiling();
  auto binary = std::make_shared<const KernelBinary>(compile(source));
  log().debug("compiled {} in {:.0f} ms", source.spec, binary->compile_ms);
  const bool stored = user_ && user_->store(*binary);
  // The compiled code runs as it is, because a file read back may differ from it.
  return {binary, KernelOrigin::compiled, stored ? user_->path_of(binary->arch, source.key).native() : "", 0,
          search.notes};
}

KernelBinary KernelCache::compile(const KernelSource& source) {
  try {
    return labelled(compiler_->compile(source), source);
  } catch (const KernelRefused& error) {
    // Stored, so that the next process learns this without the compiler.
    KernelBinary refusal;
    refusal.key = source.key;
    refusal.spec = source.spec;
    refusal.arch = source.arch.name;
    refusal.entry = source.entry;
    refusal.compiler = compiler_->judge(source.arch);
    refusal.refused = error.reason();
    if (user_) user_->store(labelled(std::move(refusal), source));
    throw;
  }
}

std::optional<KernelOrigin> KernelCache::find(const KernelSource& source) const {
  {
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(source.key);
    if (it != entries_.end() && it->second.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      try {
        static_cast<void>(it->second.get());
        return KernelOrigin::memory;
      } catch (const Error&) {
        return std::nullopt;
      }
    }
  }
  const auto holds = [&](const KernelStore& cache) {
    const auto binary = cache.load(std::string(source.arch.name), source.key);
    return binary && binary->refused.empty();
  };
  if (std::ranges::any_of(
          read_only_, holds, [](const auto& store) -> const auto& { return *store; }))
    return KernelOrigin::read_only_cache;
  if (user_ && holds(*user_)) return KernelOrigin::disk_cache;
  return std::nullopt;
}

std::vector<std::string> KernelCache::specs(std::string_view arch) const {
  std::vector<std::string> specs;
  const auto add = [&](const KernelStore& cache) {
    for (const CacheEntry& entry : cache.entries()) {
      const bool is_kernel = entry.damage.empty() && entry.binary.refused.empty();
      if (is_kernel && entry.binary.arch == arch) specs.push_back(entry.binary.spec);
    }
  };
  for (const auto& store : read_only_) add(*store);
  if (user_) add(*user_);
  return specs;
}

}  // namespace fa2
