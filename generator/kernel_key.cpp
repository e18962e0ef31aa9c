// A kernel's key is a hash of its source and of how it is compiled, so a change of either compiles anew.
#include <core/hash.h>
#include <fmt/format.h>
#include <generator/kernel_key.h>

#include <string_view>

namespace fa2 {

namespace {

/// The machine code of interpreted kernels.
#if defined(__x86_64__)
constexpr std::string_view kHost = "x86_64";
#elif defined(__aarch64__)
constexpr std::string_view kHost = "aarch64";
#else
#error "the interpreter's objects need a name for this host's machine code"
#endif

}  // namespace

std::vector<KeyPart> key_parts(const KernelSource& source, const std::string& template_digest,
                               const std::vector<SourceFile>& rendered) {
  std::vector<KeyPart> parts = {{"format", "2"},
                                {"arch", std::string(source.arch.name)},
                                {"entry", source.entry},
                                {"templates", template_digest},
                                {"options", fmt::format("{}", fmt::join(source.options, " "))}};
  for (const SourceFile& file : rendered) parts.push_back({file.name, content_hash(file.text)});
  if (source.arch.interpreted) parts.push_back({"host", std::string(kHost)});
  return parts;
}

std::string key_of(const std::vector<KeyPart>& parts) {
  std::string text;
  for (const KeyPart& part : parts) text += fmt::format("{}={}\n", part.name, part.value);
  return content_hash(text);
}

}  // namespace fa2
