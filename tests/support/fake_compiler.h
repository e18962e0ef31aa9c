// A compiler that only pretends.
#pragma once

#include <fa2/errors.h>
#include <runtime/compiler.h>

#include <atomic>
#include <string>

namespace fa2::test {

class FakeCompiler final : public Compiler {
 public:
  KernelBinary compile(const KernelSource& source) override {
    ++compiled;
    const auto is_named = [&](const std::string& part) {
      return !part.empty() && source.spec.find(part) != std::string::npos;
    };
    if (is_named(fails_on)) throw CompileError("does not compile", "log", "");
    if (is_named(refuses)) throw KernelRefused("spills", "spills (pretender 1.0)", "log", "");
    KernelBinary binary;
    binary.key = source.key;
    binary.spec = source.spec;
    binary.arch = source.arch.name;
    binary.entry = source.entry;
    binary.compiler = "pretender 1.0";
    binary.compile_ms = 5;
    binary.resources.registers = 100;
    binary.resources.threads = source.threads;
    binary.code.resize(64);
    return binary;
  }

  std::atomic<int> compiled = 0;
  std::string fails_on;  ///< a part of the spec of what does not compile
  std::string refuses;   ///< of what spills
};

}  // namespace fa2::test
