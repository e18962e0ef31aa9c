// Packs as string literals: compilers read them far faster than lists of numbers.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/file.h>
#include <spawn.h>
#include <sys/wait.h>
#include <tools/embed_pack.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <vector>

namespace fa2::tools {
namespace {

constexpr std::size_t kBytesPerLine = 96;

constexpr std::string_view kHead =
    R"(/* A kernel pack, made by `fa2 pack embed`. Its object must be linked by name, not from a static library. */
#include <stdio.h>

#if defined(__cplusplus)
extern "C" {{
#endif
extern int fa2_pack_add(const char* name, const void* data, unsigned long bytes);
extern const char* fa2_last_error(void);
#if defined(__cplusplus)
}}
#endif

#pragma GCC diagnostic ignored "-Woverlength-strings"
static const char fa2_pack[{}] __attribute__((aligned(64))) =
)";

constexpr std::string_view kTail = R"(
__attribute__((constructor)) static void fa2_add_pack(void) {{
  if (fa2_pack_add({}, fa2_pack, {}) != 0) fprintf(stderr, "fa2: %s\n", fa2_last_error());
}}
)";

/// Appends a byte as a C string literal holds it. No escape can swallow a digit that follows, and none makes a trigraph.
void append_escaped(std::string& text, unsigned char byte) {
  if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\' || byte == '?') {
    text += fmt::format("\\{:03o}", byte);
  } else {
    text += static_cast<char>(byte);
  }
}

std::string literal_of(std::string_view bytes) {
  std::string text = "\"";
  for (const char c : bytes) append_escaped(text, static_cast<unsigned char>(c));
  return text + "\"";
}

/// Returns the exit status, or -1 if the program cannot be started or a signal ended it.
int run(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  if (::posix_spawnp(&child, words[0], nullptr, nullptr, words.data(), environ) != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string embedding_source(std::span<const std::byte> pack, const std::string& name) {
  const std::string_view bytes(reinterpret_cast<const char*>(pack.data()), pack.size());
  std::string text = fmt::format(kHead, bytes.size() + 1);
  for (std::size_t i = 0; i < bytes.size(); i += kBytesPerLine)
    text += "  " + literal_of(bytes.substr(i, kBytesPerLine)) + "\n";
  text.back() = ';';
  return text + "\n" + fmt::format(kTail, literal_of(name), bytes.size());
}

void write_object(const std::filesystem::path& object, const std::string& source,
                  const std::string& compiler) {
  TemporaryFile text(object);
  TemporaryFile code(object);
  text.write(source.data(), source.size());
  const int status =
      run({compiler, "-x", "c", "-fPIC", "-c", text.path().native(), "-o", code.path().native()});
  if (status != 0)
    throw Error(
        ErrorCode::compile,
        fmt::format("{} ended with status {}: name a C compiler by --cc, or write C source by -o FILE.c",
                    compiler, status));
  code.publish();
}

}  // namespace fa2::tools
