// A compiler that compiles nothing.
#pragma once

#include <fa2/errors.h>
#include <runtime/compiler.h>

#include <atomic>
#include <functional>
#include <string>

#include "cache_fixtures.h"

namespace fa2::test {

class FakeCompiler final : public Compiler {
 public:
  KernelBinary compile(const KernelSource& source) override {
    ++compiled;
    if (before) before();
    const auto is_named = [&](const std::string& part) {
      return !part.empty() && source.spec.find(part) != std::string::npos;
    };
    if (is_named(fails_on)) throw CompileError("does not compile", "log", "");
    if (is_named(refuses)) throw KernelRefused("spills", "spills (pretender 1.0)", "log", "");
    KernelBinary binary = small_binary(source.key);
    binary.spec = source.spec;
    binary.arch = source.arch.name;
    binary.entry = source.entry;
    binary.compiler = name;
    binary.compile_ms = 5;
    binary.resources.registers = 100;
    binary.resources.threads = source.threads;
    return binary;
  }
  std::string judge(const Arch&) override {
    if (name.empty()) throw Unavailable("no compiler");
    return name;
  }

  std::string name = "pretender 1.0";  ///< empty: there is no compiler
  std::atomic<int> compiled = 0;
  std::function<void()> before;  ///< may throw
  std::string fails_on;          ///< part of a spec; these kernels do not compile
  std::string refuses;           ///< part of a spec; these kernels spill
};

}  // namespace fa2::test
