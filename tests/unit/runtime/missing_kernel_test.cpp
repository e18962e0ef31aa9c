// The error for a missing kernel names the command that makes it. The test reads the command from the message
// and runs it in a shell.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <runtime/env.h>
#include <runtime/kernel_cache.h>
#include <sys/wait.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/temporary_directory.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#if defined(FA2_COMMAND) && defined(FA2_FAKE_NVRTC)

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the message of a server without NVRTC and with an empty cache.
std::string message_of(const KernelSource& source) {
  try {
    KernelCache(nullptr, {}, nullptr, JitMode::off).get(source);
  } catch (const Unavailable& error) {
    return error.what();
  }
  return "";
}

std::string command_in(const std::string& message) {
  const std::size_t begin = message.find("FA2_CONFIG="), end = message.find('\n', begin);
  return begin == std::string::npos ? "" : message.substr(begin, end - begin);
}

/// Runs a command line unchanged in `directory`, with compilers that take no time. Returns its exit status.
int run(const std::string& line, const TemporaryDirectory& directory) {
  write_text(directory / "c++", "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho code >\"$2\"\n");
  std::filesystem::permissions(directory / "c++", std::filesystem::perms::owner_all);
  std::string command = "cd " + directory.path().string() + " && env";
  for (const EnvVariable& variable : environment()) command += " -u " + std::string(variable.name);
  command += " FA2_CACHE_DIR=own FA2_NVRTC=" FA2_FAKE_NVRTC " FA2_CXX=./c++ PATH=" +
             std::filesystem::path(FA2_COMMAND).parent_path().string() + ":\"$PATH\" sh -c '" + line +
             "' >out 2>err </dev/null";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void check_command(const KernelSpec& spec) {
  const TemporaryDirectory directory;
  const KernelSource source = render(spec);
  CAPTURE(source.spec);
  const std::string message = message_of(source), command = command_in(message);
  CHECK((message.find("NVRTC") == std::string::npos) == spec.arch.interpreted);
  CHECK(message.find("then set FA2_CACHE_PATH=DIR") != std::string::npos);
  const int status = run(command, directory);
  CAPTURE(read_text(directory / "err"));
  CHECK(status == 0);
  const ScopedEnvironment trust("FA2_CACHE_TRUST",
                                spec.arch.interpreted ? "host" : "0");  // as the message says
  KernelCache pack(nullptr, stores_of({DiskCache(directory / "DIR", kReadOnly)}), nullptr, JitMode::off);
  CHECK(pack.get(source).origin == KernelOrigin::read_only_cache);
  CHECK(pack.specs(spec.arch.name).size() == 1);
}

KernelSpec spec(const char* arch, const char* config, const AttentionProblem& problem,
                const PlanOptions& options = {}) {
  return {traits_of({problem, options}), parse_config(config), *find_arch(arch)};
}

}  // namespace

TEST_CASE("missing kernel: the command makes exactly this kernel of forward_sm80") {
  check_command(spec("sm_80", "tile_m=128,tile_n=64,warps=4,stages=2,q_in_registers=1", {.head_dim = 64}));
  check_command(
      spec("sm_120", "tile_m=64,tile_n=32,warps=4,stages=1",
           {.dtype = DType::bf16, .head_dim = 72, .head_dim_v = 40, .mask = MaskKind::causal_top_left},
           {RowAlignment::element}));
  check_command(spec("sm_90a", "tile_m=64,tile_n=64,warps=4,stages=2",
                     {.dtype = DType::bf16, .head_dim = 128, .mask = MaskKind::causal_bottom_right},
                     {RowAlignment::bytes16_any_order}));
}

TEST_CASE("missing kernel: the command makes a kernel of forward_sm90") {
  check_command(spec("sm_90a",
                     "kernel=forward_sm90,tile_m=64,tile_n=128,warps=4,stages=3,ctas_per_sm=2,q_buffers=1,"
                     "schedule=2,overlap=1,speculative_max=1",
                     {.head_dim = 64}));
  check_command(
      spec("sm_90a",
           "kernel=forward_sm90,tile_m=192,tile_n=80,warps=12,stages=2,q_buffers=1,schedule=2,overlap=1,"
           "pingpong=1,skip_masked=1",
           {.dtype = DType::bf16, .head_dim = 128, .head_dim_v = 64, .mask = MaskKind::causal_bottom_right}));
}

TEST_CASE("missing kernel: the command makes an interpreted kernel if the host has a compiler") {
  check_command(
      spec("interpreter", "tile_m=64,tile_n=32,warps=4,stages=1", {.head_dim = 16}, {RowAlignment::element}));
  check_command(
      spec("interpreter",
           "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2",
           {.head_dim = 64}));
}

#else
TEST_CASE("missing kernel") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
