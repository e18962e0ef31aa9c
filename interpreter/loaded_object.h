// A shared object that exists in memory only.
#pragma once

#include <dlfcn.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/file.h>
#include <runtime/kernel_binary.h>

#include <string>

namespace fa2::interpreter {

class LoadedObject {
 public:
  /// Loads the code of a binary. @throws Unavailable if it cannot be loaded.
  explicit LoadedObject(const KernelBinary& binary);
  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  /// @throws Unavailable if there is none with this name.
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

}  // namespace fa2::interpreter
