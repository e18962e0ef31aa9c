// Defines functions of the C library. The executable's definitions also replace those that libstdc++ calls.
#include "system_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <type_traits>

namespace {

using fa2::test::Effect;
using fa2::test::SystemFault;

struct Armed {
  SystemFault fault;
  int count = 0;
  std::string affected;
};
thread_local Armed* armed = nullptr;
std::atomic<int> lock_error = 0;
std::atomic<unsigned> next_random = 1;

template <class Function>
Function* next_named(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

template <class Value>
Value failure() {
  if constexpr (std::is_same_v<Value, void*>) return MAP_FAILED;
  if constexpr (std::is_pointer_v<Value>) return nullptr;
  if constexpr (std::is_integral_v<Value>) return -1;
}

/// Counts a call. Returns whether the fault affects it.
bool is_hit() {
  if (armed == nullptr) return false;
  const int number = armed->count++;
  const SystemFault& fault = armed->fault;
  return number >= fault.first && number - fault.first < fault.calls;
}

/// Makes the call, or lets the fault happen to it.
template <class Call>
auto call_or_fail(const char* name, Call&& call) {
  using Value = decltype(call());
  if (!is_hit()) return call();
  const SystemFault& fault = armed->fault;
  if (fault.effect == Effect::kill_before) ::raise(SIGKILL);
  if (fault.effect == Effect::kill_after) {
    static_cast<void>(call());
    ::raise(SIGKILL);
  }
  if (fault.effect != Effect::error) return call();
  armed->affected += (armed->affected.empty() ? "" : " ") + std::string(name);
  errno = fault.error;
  return failure<Value>();
}

/// Like call_or_fail(), for a call that transfers `bytes` bytes.
template <class Call>
ssize_t transfer_or_fail(const char* name, bool reads, size_t bytes, Call&& call) {
  const bool cuts =
      armed != nullptr && (armed->fault.effect == Effect::cut || armed->fault.effect == Effect::end);
  if (!cuts) return call_or_fail(name, [&] { return call(bytes); });
  if (!is_hit()) return call(bytes);
  const bool ends = armed->fault.effect == Effect::end;
  if (ends ? !reads : bytes < 2) return call(bytes);
  armed->affected += (armed->affected.empty() ? "" : " ") + std::string(name);
  return ends ? 0 : call(bytes / 2);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

namespace fa2::test {

ScopedSystemFault::ScopedSystemFault(const SystemFault& fault) {
  if (armed != nullptr) throw std::logic_error("a fault is already set");
  armed = new Armed{fault, 0, {}};
}
ScopedSystemFault::~ScopedSystemFault() {
  delete armed;
  armed = nullptr;
}
int ScopedSystemFault::calls() const {
  return armed->count;
}
std::string ScopedSystemFault::affected() const {
  return armed->affected;
}
void fail_locks(int error) {
  lock_error = error;
}

void set_random(unsigned next) {
  next_random = next;
}

}  // namespace fa2::test

/// Replaces what std::random_device calls for a number.
__attribute__((visibility("default"))) unsigned std::random_device::_M_getval() {
  return next_random++;
}

#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const next = next_named<int(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return call_or_fail("open", [&] { return next(path, flags, mode); });
}
int openat(int folder, const char* path, int flags, ...) {
  static auto* const next = next_named<int(int, const char*, int, ...)>("openat");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return call_or_fail("openat", [&] { return next(folder, path, flags, mode); });
}
ssize_t read(int file, void* to, size_t bytes) {
  static auto* const next = next_named<ssize_t(int, void*, size_t)>("read");
  return transfer_or_fail("read", true, bytes, [&](size_t some) { return next(file, to, some); });
}
ssize_t pread(int file, void* to, size_t bytes, off_t at) {
  static auto* const next = next_named<ssize_t(int, void*, size_t, off_t)>("pread");
  return transfer_or_fail("pread", true, bytes, [&](size_t some) { return next(file, to, some, at); });
}
ssize_t write(int file, const void* from, size_t bytes) {
  static auto* const next = next_named<ssize_t(int, const void*, size_t)>("write");
  if (file <= STDERR_FILENO) return next(file, from, bytes);
  return transfer_or_fail("write", false, bytes, [&](size_t some) { return next(file, from, some); });
}
ssize_t pwrite(int file, const void* from, size_t bytes, off_t at) {
  static auto* const next = next_named<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return transfer_or_fail("pwrite", false, bytes, [&](size_t some) { return next(file, from, some, at); });
}
/// Closes the file even if it reports an error, as the kernel does.
int close(int file) {
  static auto* const next = next_named<int(int)>("close");
  const int result = next(file);
  return call_or_fail("close", [&] { return result; });
}
/// Syncs nothing: the tests kill processes, not machines, and would wait for the disk.
int fsync(int) {
  return call_or_fail("fsync", [] { return 0; });
}
int flock(int file, int operation) noexcept {
  static auto* const next = next_named<int(int, int)>("flock");
  if (lock_error != 0) return errno = lock_error, -1;
  return call_or_fail("flock", [&] { return next(file, operation); });
}

#define FA2_FAULTY(result, name, parameters, arguments)             \
  result name parameters {                                          \
    static auto* const next = next_named<result parameters>(#name); \
    return call_or_fail(#name, [&] { return next arguments; });     \
  }
#define FA2_FAULTY_NOEXCEPT(result, name, parameters, arguments)    \
  result name parameters noexcept {                                 \
    static auto* const next = next_named<result parameters>(#name); \
    return call_or_fail(#name, [&] { return next arguments; });     \
  }
FA2_FAULTY_NOEXCEPT(int, stat, (const char* path, struct stat* status), (path, status))
FA2_FAULTY_NOEXCEPT(int, lstat, (const char* path, struct stat* status), (path, status))
FA2_FAULTY_NOEXCEPT(int, fstat, (int file, struct stat* status), (file, status))
FA2_FAULTY_NOEXCEPT(int, fstat64, (int file, struct stat64* status), (file, status))
FA2_FAULTY_NOEXCEPT(off_t, lseek, (int file, off_t by, int from), (file, by, from))
FA2_FAULTY_NOEXCEPT(int, rename, (const char* from, const char* to), (from, to))
FA2_FAULTY_NOEXCEPT(int, remove, (const char* path), (path))
FA2_FAULTY_NOEXCEPT(int, unlink, (const char* path), (path))
FA2_FAULTY_NOEXCEPT(int, unlinkat, (int folder, const char* path, int flags), (folder, path, flags))
FA2_FAULTY_NOEXCEPT(int, mkdir, (const char* path, mode_t mode), (path, mode))
FA2_FAULTY_NOEXCEPT(int, mkdirat, (int folder, const char* path, mode_t mode), (folder, path, mode))
FA2_FAULTY_NOEXCEPT(int, chmod, (const char* path, mode_t mode), (path, mode))
FA2_FAULTY_NOEXCEPT(int, fchmod, (int file, mode_t mode), (file, mode))
FA2_FAULTY_NOEXCEPT(int, ftruncate, (int file, off_t bytes), (file, bytes))
FA2_FAULTY_NOEXCEPT(int, futimens, (int file, const struct timespec* times), (file, times))
FA2_FAULTY_NOEXCEPT(void*, mmap, (void* at, size_t bytes, int access, int flags, int file, off_t from),
                    (at, bytes, access, flags, file, from))
FA2_FAULTY(DIR*, opendir, (const char* path), (path))
FA2_FAULTY(DIR*, fdopendir, (int folder), (folder))
FA2_FAULTY(struct dirent*, readdir, (DIR * folder), (folder))

}  // extern "C"
#pragma GCC visibility pop
