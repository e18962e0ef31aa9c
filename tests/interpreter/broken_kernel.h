// Kernels that break one rule of the machine, and keep all of them once mended.
#pragma once

#include <interpreter/options.h>
#include <runtime/kernel_binary.h>

#include <string>
#include <vector>

#include "../support/small_kernel.h"

namespace fa2::test {

/// Of the input and of the output: no multiple of 16.
constexpr int kBufferBytes = 1032;

/// The parameters of a BrokenKernel: bytes 0, 1, 2 ... of an input, and an output.
struct BrokenParams {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool mended = false;
};

struct BrokenKernel {
  const char* name;
  /// In its reach: `mended`, thread `t`, the start `s` of shared memory, the bytes p.input and p.output.
  std::string body;
  /// Parts of the fault's message, whatever the order of the warps; {input+2} and {output-1} stand for
  /// addresses.
  std::vector<std::string> words;
  int threads = 32;
  int shared_bytes = 1024;
  int blocks = 1;
};

/// Every Options with checks that a rule must be caught under: early and late, with seeds 0 and 1.
std::vector<interpreter::Options> checked_options();

/// Its parameters are BrokenParams.
SmallKernel small_kernel(const BrokenKernel& kernel);

/// CHECKs under every checked_options() that each kernel is stopped with a message of its words and its name,
/// and that the same loaded kernel runs to its end once mended.
void expect_caught(const std::vector<BrokenKernel>& kernels);

}  // namespace fa2::test
