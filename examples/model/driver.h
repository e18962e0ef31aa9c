// The CUDA driver, which is opened at run time, so that the examples build without CUDA.
#pragma once

namespace example {

/// Returns the driver's function. @throws std::runtime_error if there is no driver, or no such function in it.
void* driver_function(const char* name);

/// @throws std::runtime_error that names the function, unless `result` is CUDA_SUCCESS.
void require_success(const char* name, int result);

/// Calls the driver's function `name`. The arguments must have exactly the types of its parameters. @throws std::runtime_error
/// that names it.
template <class... Arguments>
void call_driver(const char* name, Arguments... arguments) {
  require_success(name, reinterpret_cast<int (*)(Arguments...)>(driver_function(name))(arguments...));
}

/// Returns the number of GPUs that the driver sees.
int gpu_count();

/// Makes the device's primary context current on this thread.
void use_gpu(int device);

/// Makes device 0's primary context current, which fa2 uses if none is. Does nothing if the thread has a current context.
void use_first_gpu();

}  // namespace example
