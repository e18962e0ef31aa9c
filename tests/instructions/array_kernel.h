// Kernels that map an array to an array, on the device under test.
#pragma once

#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/small_kernel.h"

namespace fa2::test {

struct ArrayParams {
  const void* in = nullptr;
  void* out = nullptr;
  int count = 0;
};

/// The name of an element type in device code.
template <class T>
constexpr const char* kTypeName = nullptr;
template <>
inline constexpr const char* kTypeName<float> = "float";
template <>
inline constexpr const char* kTypeName<std::uint16_t> = "u16";
template <>
inline constexpr const char* kTypeName<std::uint32_t> = "u32";

/// Returns the `out_count` elements of p.out that one block writes. p.in and p.count describe `in`. The
/// kernel uses plain C++ accesses, so that a test covers only its own instruction.
template <class Out, class In>
std::vector<Out> run_over(const std::vector<In>& in, std::size_t out_count, const std::string& body,
                          int threads = 32, int shared_bytes = 1024,
                          const std::vector<std::string>& headers = {}) {
  const ScopedContext current(device_under_test());
  const auto kernel =
      build({body,
             std::string("const ") + kTypeName<In> + "* in; " + kTypeName<Out> + "* out; int count;",
             threads,
             shared_bytes,
             {},
             headers});
  DeviceBuffer in_buffer(in.size() * sizeof(In)), out_buffer(out_count * sizeof(Out));
  in_buffer.upload(in.data(), in_buffer.size());
  out_buffer.fill(0xa5);
  launch(*kernel, ArrayParams{in_buffer.data(), out_buffer.data(), static_cast<int>(in.size())},
         Buffers().input(in_buffer).output(out_buffer));
  std::vector<Out> out(out_count);
  out_buffer.download(out.data(), out_buffer.size());
  return out;
}

/// Returns `expression` of each element x of `in` and its index i. `headers`: of templates/, besides those of templates/ptx.
template <class Out, class In>
std::vector<Out> map(const std::vector<In>& in, const std::string& expression,
                     const std::vector<std::string>& headers = {}) {
  return run_over<Out>(in, in.size(),
                       "for (int i = thread_index(); i < p.count; i += 128) {\n  const " +
                           std::string(kTypeName<In>) + " x = p.in[i];\n  p.out[i] = " + expression + ";\n}",
                       128, 1024, headers);
}

}  // namespace fa2::test
