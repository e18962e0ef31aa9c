// A shared library opened at run time.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fa2 {

/// Owns a dlopen handle. Movable.
class SharedLibrary {
 public:
  /// Opens the first candidate that loads (RTLD_NOW | RTLD_LOCAL).
  /// @throws Unavailable that lists every name tried with the loader's reason, and `advice`.
  static SharedLibrary open_first(const std::vector<std::string>& candidates, const std::string& what,
                                  const std::string& advice);

  /// Returns a library that the process has loaded already, by its name without a folder; none if it has not.
  static std::optional<SharedLibrary> find_loaded(const std::string& name);

  ~SharedLibrary();
  SharedLibrary(SharedLibrary&& other) noexcept;
  SharedLibrary& operator=(SharedLibrary&&) = delete;

  /// Returns a symbol's address; nullptr if the library lacks it.
  void* find(const char* symbol) const;
  const std::string& path() const { return path_; }

 private:
  SharedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* handle_;
  std::string path_;
};

/// Directories in which a library is searched, which belong to the process. Thread-safe.
class SearchPath {
 public:
  void set(std::vector<std::string> directories);
  std::vector<std::string> get() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> directories_;
};

}  // namespace fa2
