// Opens libcuda and fills the function table.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/driver.h>
#include <runtime/log.h>
#include <runtime/shared_library.h>

namespace fa2 {
namespace {

constexpr int kOldestVersion = 12000;

struct OpenDriver {
  SharedLibrary library;
  PFN_cuGetProcAddress_v12000 get_proc_address = nullptr;
  int version = 0;
};

template <class Function>
Function exported(const SharedLibrary& library, const char* symbol) {
  return reinterpret_cast<Function>(library.find(symbol));
}

OpenDriver* open_libcuda() {
  auto library =
      SharedLibrary::open_first({"libcuda.so.1"}, "no NVIDIA driver: libcuda.so.1",
                                "Install the NVIDIA driver (CUDA 12.0 or newer, 525.60 or newer).");
  int version = 0;
  const auto get_version = exported<PFN_cuDriverGetVersion_v2020>(library, "cuDriverGetVersion");
  const auto get_proc_address = exported<PFN_cuGetProcAddress_v12000>(library, "cuGetProcAddress_v2");
  if (get_version == nullptr || get_version(&version) != CUDA_SUCCESS) {
    throw Unavailable(library.path() +
                      " is not a working NVIDIA driver: it may be the toolkit's stub for linking");
  }
  if (version < kOldestVersion || get_proc_address == nullptr) {
    throw Unavailable(
        fmt::format("the NVIDIA driver ({}) supports CUDA {}.{}; fa2 needs 12.0 or newer: update the driver",
                    library.path(), version / 1000, version % 1000 / 10));
  }
  return new OpenDriver{std::move(library), get_proc_address, version};
}

/// Never closed, because kernels with static lifetime are unloaded after other statics are gone.
const OpenDriver& libcuda() {
  static const OpenDriver& opened = *open_libcuda();
  return opened;
}

const Driver& initialize() {
  const Driver& table = uninitialized_driver();
  const CUresult result = table.init(0);
  if (result == CUDA_SUCCESS) return table;
  try {
    throw_cuda_error(result, "cuInit");
  } catch (const CudaError& error) {
    throw Unavailable(
        fmt::format("the NVIDIA driver ({}) cannot be used: {}", libcuda().library.path(), error.what()));
  }
}

}  // namespace

void* driver_function(const char* name, int cuda_version) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result =
      libcuda().get_proc_address(name, &function, cuda_version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
  if (result != CUDA_SUCCESS || status != CU_GET_PROC_ADDRESS_SUCCESS || function == nullptr) {
    throw Unavailable(
        fmt::format("the NVIDIA driver ({}, CUDA {}) has no {} of CUDA {} (result {}, status {})",
                    libcuda().library.path(), libcuda().version, name, cuda_version, static_cast<int>(result),
                    static_cast<int>(status)));
  }
  return function;
}

const Driver& uninitialized_driver() {
  static const Driver table = [] {
    Driver driver;
#define FA2_LOAD(field, name, cuda_version) \
  driver.field = reinterpret_cast<PFN_##name##_v##cuda_version>(driver_function(#name, cuda_version));
    FA2_DRIVER_FUNCTIONS(FA2_LOAD)
#undef FA2_LOAD
    driver.version = libcuda().version;
    return driver;
  }();
  return table;
}

const Driver& driver() {
  static const Driver& initialized = initialize();
  return initialized;
}

void throw_cuda_error(CUresult result, const std::string& what) {
  const Driver& table = uninitialized_driver();
  const char* name = nullptr;
  const char* text = nullptr;
  table.get_error_name(result, &name);
  table.get_error_string(result, &text);
  throw CudaError(fmt::format("{}: {} ({}): {}", what, name != nullptr ? name : "unknown CUDA error",
                              static_cast<int>(result), text != nullptr ? text : "no description"),
                  static_cast<std::int32_t>(result));
}

void warn_unless_ok(CUresult result, const char* call) noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;
  try {
    throw_cuda_error(result, call);
  } catch (const std::exception& error) {
    log().warn("{}", error.what());
  }
}

}  // namespace fa2
