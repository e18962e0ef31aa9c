// Small kernels, environment settings and child processes for the tests of the caches.
#pragma once

#include <fcntl.h>
#include <runtime/disk_cache.h>
#include <runtime/kernel_binary.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace fa2::test {

inline constexpr auto kReadWrite = DiskCache::Access::read_write;
inline constexpr auto kReadOnly = DiskCache::Access::read_only;

inline const std::string kKey = "0123456789abcdef0123456789abcdef";

inline std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(static_cast<unsigned char>(c)));
  return bytes;
}

inline KernelBinary small_binary(const std::string& key = kKey,
                                 const std::string& code = "the machine code") {
  KernelBinary binary;
  binary.key = key;
  binary.spec = "f16_d64_none tile_m=64";
  binary.arch = "sm_80";
  binary.entry = "fa2_entry";
  binary.compiler = "nvrtc 13.0";
  binary.compile_ms = 123.456;
  binary.resources = {168, 1, 2, 3, 1024, 49152, 128};
  binary.code = bytes_of(code);
  return binary;
}

/// Returns the directories as a KernelCache takes them.
inline Stores stores_of(const std::vector<DiskCache>& directories) {
  Stores stores;
  for (const DiskCache& directory : directories)
    stores.push_back(std::make_shared<const DiskCache>(directory));
  return stores;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// Makes a file look as if it was last used `seconds` ago.
inline void age(const std::filesystem::path& path, std::time_t seconds) {
  const timespec then{std::time(nullptr) - seconds, 0};
  const timespec times[2] = {then, then};
  if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0)
    throw std::runtime_error("utimensat " + path.native());
}

inline std::time_t modified(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mtime : 0;
}

inline unsigned mode_of(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777u : 0;
}

/// Sets an environment variable for its lifetime.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      old_ = old;
      was_set_ = true;
    }
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    if (was_set_) {
      ::setenv(name_, old_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool was_set_ = false;
};

/// Runs `body` in a child process. The exit status is what body returns, or 99 if it throws. A child that
/// hangs is killed after a minute.
template <class Body>
pid_t fork_child(Body&& body) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child > 0) return child;
  ::alarm(60);
  int status = 99;
  try {
    status = body();
  } catch (...) {
  }
  ::_exit(status);
}

/// Returns the exit status of a child, or minus the number of the signal that killed it.
inline int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Sends single bytes between processes: send() never blocks here, receive() waits.
class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_) != 0) throw std::runtime_error("pipe failed");
  }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void send() const {
    if (::write(ends_[1], "x", 1) != 1) throw std::runtime_error("pipe write failed");
  }
  void receive() const {
    char byte = 0;
    if (::read(ends_[0], &byte, 1) != 1) throw std::runtime_error("pipe read failed");
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace fa2::test
