// Kernels that break one rule of the machine; their mended form keeps every rule.
#pragma once

#include <interpreter/options.h>
#include <runtime/kernel_binary.h>

#include <string>
#include <vector>

#include "../support/small_kernel.h"

namespace fa2::test {

/// Bytes of the input and of the output; no multiple of 16.
constexpr int kBufferBytes = 1032;

/// The parameters of a BrokenKernel: an input with bytes 0, 1, 2, ..., and an output.
struct BrokenParams {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool mended = false;
};

struct BrokenKernel {
  const char* name;
  /// May use `mended`, thread `t`, the start `s` of shared memory, and the bytes p.input and p.output.
  std::string body;
  /// Parts of the fault's message that do not depend on the order of warps. {input+2} and {output-1} are
  /// replaced by addresses.
  std::vector<std::string> words;
  int threads = 32;
  int shared_bytes = 1024;
  int blocks = 1;
  int cluster = 1;
};

/// Returns every Options with checks under which a broken rule must be caught: early and late, with seeds 0
/// and 1.
std::vector<interpreter::Options> checked_options();

/// Returns a kernel whose parameters are BrokenParams.
SmallKernel small_kernel(const BrokenKernel& kernel);

/// CHECKs, under every checked_options(), that each kernel stops with a message that contains its words and
/// its name, and that the same loaded kernel runs to its end when mended.
void expect_caught(const std::vector<BrokenKernel>& kernels);

}  // namespace fa2::test
