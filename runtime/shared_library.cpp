// dlopen with an error that lists what was tried.
#include <dlfcn.h>
#include <fa2/errors.h>
#include <link.h>
#include <runtime/shared_library.h>

#include <string_view>
#include <utility>

namespace fa2 {
namespace {

std::string loaded_path(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map->l_name == nullptr || *map->l_name == '\0')
    return fallback;
  return map->l_name;
}

/// Returns the loader's reason, without the name with which it usually begins.
std::string loader_reason(const std::string& candidate) {
  const char* text = dlerror();
  std::string_view reason = text != nullptr ? text : "unknown reason";
  if (reason.substr(0, candidate.size() + 2) == candidate + ": ") reason.remove_prefix(candidate.size() + 2);
  return std::string(reason);
}

}  // namespace

SharedLibrary SharedLibrary::open_first(const std::vector<std::string>& candidates, const std::string& what,
                                        const std::string& advice) {
  std::string tried;
  for (const std::string& candidate : candidates) {
    if (void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return SharedLibrary(handle, loaded_path(handle, candidate));
    }
    tried += "\n  " + candidate + ": " + loader_reason(candidate);
  }
  throw Unavailable(what + " could not be opened:" + tried + "\n" + advice);
}

std::optional<SharedLibrary> SharedLibrary::find_loaded(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return std::nullopt;
  return SharedLibrary(handle, loaded_path(handle, name));
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

SharedLibrary::SharedLibrary(SharedLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

void* SharedLibrary::find(const char* symbol) const {
  return dlsym(handle_, symbol);
}

void SearchPath::set(std::vector<std::string> directories) {
  const std::lock_guard lock(mutex_);
  directories_ = std::move(directories);
}

std::vector<std::string> SearchPath::get() const {
  const std::lock_guard lock(mutex_);
  return directories_;
}

}  // namespace fa2
