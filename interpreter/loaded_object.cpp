// Loads a binary from memory with dlopen.
#include <interpreter/loaded_object.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace fa2::interpreter {

LoadedObject::LoadedObject(const KernelBinary& binary) : file_(::memfd_create("fa2-kernel", MFD_CLOEXEC)) {
  const std::byte* from = binary.code.data();
  for (std::size_t left = binary.code.size(); left > 0;) {
    const ssize_t written = ::write(file_.get(), from, left);
    if (written <= 0) throw_file_error("cannot write", "a file in memory", errno);
    from += written;
    left -= static_cast<std::size_t>(written);
  }
  // Not /proc/self, because a debugger opens the same name to read the symbols.
  handle_ = ::dlopen(fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) throw Unavailable(fmt::format("{} cannot be loaded: {}", binary.spec, ::dlerror()));
}

LoadedObject::~LoadedObject() {
  ::dlclose(handle_);
}

}  // namespace fa2::interpreter
