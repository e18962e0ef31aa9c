// Compiles all kernels of a table in parallel, then runs them one by one.
#include "broken_kernel.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <interpreter/interpreted_kernel.h>
#include <runtime/device.h>
#include <runtime/parallel.h>

#include <numeric>
#include <thread>

namespace fa2::test {
namespace {

/// An input and an output, and the launch memory that lists both.
struct Launch {
  const ScopedContext current{kInterpreterDevice};
  DeviceBuffer input{kBufferBytes}, output{kBufferBytes};
  Buffers buffers;

  Launch() {
    std::vector<unsigned char> bytes(kBufferBytes);
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
    input.upload(bytes.data(), bytes.size());
    buffers.input(input).output(output);
  }

  std::string fault(const Kernel& kernel, bool mended, int blocks, int cluster) const {
    const BrokenParams params{static_cast<const std::byte*>(input.data()),
                              static_cast<std::byte*>(output.data()), mended};
    return fault_of(kernel, params, buffers, blocks, cluster);
  }

  /// Returns `word` with addresses in place of {input+2} and the like.
  std::string expand(std::string word) const {
    for (const auto& [name, buffer] : {std::pair("{input", &input), std::pair("{output", &output)}) {
      for (auto from = word.find(name); from != std::string::npos; from = word.find(name)) {
        const auto sign = word.find_first_of("+-", from), end = word.find('}', from);
        const int offset = std::stoi(word.substr(sign, end - sign));
        const auto* const address = static_cast<const std::byte*>(buffer->data()) + offset;
        word.replace(from, end + 1 - from, fmt::format("{}", fmt::ptr(address)));
      }
    }
    return word;
  }
};

std::vector<KernelBinary> compile_all(const std::vector<BrokenKernel>& kernels) {
  std::vector<KernelBinary> binaries(kernels.size());
  for_each_index(kernels.size(), static_cast<int>(std::thread::hardware_concurrency()),
                 [&](std::size_t i) { binaries[i] = compile_for_interpreter(small_kernel(kernels[i])); });
  return binaries;
}

}  // namespace

std::vector<interpreter::Options> checked_options() {
  std::vector<interpreter::Options> list;
  for (const bool late : {false, true}) {
    for (const std::uint32_t seed : {0u, 1u}) list.push_back({late, true, seed});
  }
  return list;
}

SmallKernel small_kernel(const BrokenKernel& kernel) {
  // On one line, so that the body keeps its line numbers.
  const std::string names =
      "const bool mended = p.mended; const int t = thread_index(); const SharedAddress s = "
      "dynamic_shared(); ";
  return {names + kernel.body, "const unsigned char* input; unsigned char* output; bool mended;",
          kernel.threads, kernel.shared_bytes};
}

void expect_caught(const std::vector<BrokenKernel>& kernels) {
  const Launch launch;
  const std::vector<KernelBinary> binaries = compile_all(kernels);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const BrokenKernel& kernel = kernels[i];
    for (const interpreter::Options& options : checked_options()) {
      INFO(std::string(kernel.name), ", ", std::string(options.late ? "late" : "early"), ", seed ",
           options.seed);
      const auto loaded = interpreter::load_interpreted_kernel(binaries[i], options);
      const std::string fault = launch.fault(*loaded, false, kernel.blocks, kernel.cluster);
      std::vector<std::string> words = kernel.words;
      words.push_back("kernel small kernel, block");
      for (const std::string& word : words) {
        const bool is_there = fault.find(launch.expand(word)) != std::string::npos;
        CHECK_MESSAGE(is_there, "\"", word, "\" is not in: ", fault);
      }
      CHECK(launch.fault(*loaded, true, kernel.blocks, kernel.cluster) == "");
    }
  }
}

}  // namespace fa2::test
