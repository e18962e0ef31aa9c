/* The machine that fa2 runs on, in fa2's C interface: its GPUs, driver and NVRTC, interrupts, and whether a stream captures. */
#ifndef FA2_C_MACHINE_H
#define FA2_C_MACHINE_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets directories in which fa2 looks for NVRTC before the loader's search path, in place of those of an earlier call. FA2_NVRTC
 * wins over them. fa2 opens NVRTC when it first compiles a kernel, and ignores later changes. `directories` may be NULL if `count`
 * is 0. Thread-safe. */
FA2_C_API fa2_status fa2_set_nvrtc_search(const char* const* directories, size_t count);

/* Sets the function that can end fa2's work on the CPU, in place of an earlier one; NULL for none. While an interpreted kernel
 * runs, or the host's compiler or fa2_precompile() compiles, the calling thread calls poll(data) about every 50 ms. If poll
 * returns not 0, the call ends with FA2_INTERRUPTED. Outputs of the call may then hold anything; context and plan stay usable.
 * poll may be called from several threads at once, if several call fa2, and must not call fa2. Thread-safe. */
FA2_C_API fa2_status fa2_set_interrupt(int32_t (*poll)(void* data), void* data);

/* Writes to *capturing whether `stream` of the current device captures into a CUDA graph (1) or not (0). Memory for a captured call
 * must come from the graph's pool. FA2_UNAVAILABLE without a driver. */
FA2_C_API fa2_status fa2_stream_is_capturing(void* stream, int32_t* capturing);

/* Writes a JSON object to *json: "version", "driver" (its CUDA version; "" without one), "gpus", "nvrtc" and "cache". A missing part
 * has an "error" that says why. Opens NVRTC. Free *json with fa2_string_free(); it is NULL on failure. */
FA2_C_API fa2_status fa2_machine(char** json);

#ifdef __cplusplus
}
#endif

#endif
