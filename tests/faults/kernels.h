// Kernels whose code follows from their keys, so that one in place of another is noticed.
#pragma once

#include <core/arch.h>
#include <core/hash.h>
#include <fa2/errors.h>
#include <runtime/compiler.h>
#include <runtime/kernel_cache.h>
#include <tests/support/cache_fixtures.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fa2::test {

inline const std::string kReason = "spills 8 bytes (fake 1.0)";

inline std::string key_of(const std::string& name) {
  return content_hash(name);
}

/// Returns the code that DerivingCompiler makes: 3 KB. Not for several threads.
inline const std::vector<std::byte>& code_of(const std::string& key) {
  static std::map<std::string, std::vector<std::byte>> codes;
  std::vector<std::byte>& code = codes[key];
  if (code.empty()) {
    std::string text;
    for (int i = 0; i < 96; ++i) text += content_hash(key + std::to_string(i));
    code = bytes_of(text);
  }
  return code;
}

inline KernelSource source_of(const std::string& key) {
  KernelSource source;
  source.key = key;
  source.spec = "f16_d64_none tile_m=64 " + key;
  source.entry = "fa2_entry";
  source.arch = *find_arch("sm_80");
  source.threads = 128;
  return source;
}

/// Derives the code from the key.
class DerivingCompiler final : public Compiler {
 public:
  KernelBinary compile(const KernelSource& source) override {
    if (before) before(source.key);
    if (source.key == refuses) throw KernelRefused("refused", kReason, "log", "");
    KernelBinary binary = small_binary(source.key);
    binary.spec = source.spec;
    binary.code = code_of(source.key);
    return binary;
  }
  std::string judge(const Arch&) override { return "fake 1.0"; }

  std::string refuses;                                 ///< key of a kernel that spills
  std::function<void(const std::string& key)> before;  ///< called first
};

/// Returns the cache of a new process with one directory.
inline std::unique_ptr<KernelCache> cache_in(const std::filesystem::path& root,
                                             const std::string& refuses = {},
                                             std::function<void(const std::string& key)> before = {}) {
  auto compiler = std::make_shared<DerivingCompiler>();
  compiler->refuses = refuses;
  compiler->before = std::move(before);
  return std::make_unique<KernelCache>(compiler, Stores{}, std::make_shared<DiskCache>(root, kReadWrite),
                                       JitMode::on);
}

}  // namespace fa2::test
