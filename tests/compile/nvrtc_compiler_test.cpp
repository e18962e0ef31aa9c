// The NVRTC compiler on small kernels: what it accepts, what it refuses, and what its errors say. Needs no
// GPU.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/compiler.h>
#include <runtime/nvrtc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../support/device_under_test.h"

namespace {

constexpr const char* kHeader =
    "#pragma once\nusing u32 = unsigned;\n__device__ inline u32 twice(u32 x) { return 2 * x; }\n";
constexpr const char* kBody =
    "#include \"tile/twice.cuh\"\n"
    "extern \"C\" __global__ void small(u32* data) {\n"
    "  __shared__ u32 row[100];\n"
    "  row[threadIdx.x] = data[threadIdx.x];\n"
    "  __syncthreads();\n"
    "  data[threadIdx.x] = twice(row[99 - threadIdx.x]);\n"
    "}\n";

fa2::KernelSource source(const std::string& arch, const std::string& text = kBody) {
  fa2::KernelSource result;
  result.key = "0123456789abcdef0123456789abcdef";
  result.spec = "small kernel";
  result.entry = "small";
  result.arch = *fa2::find_arch(arch);
  result.main = {"small.cu", text};
  result.headers = {{"tile/twice.cuh", kHeader}};
  result.options = {"--gpu-architecture=" + arch, "--std=c++17", "-default-device", "--no-cache",
                    "--ptxas-options=-v"};
  result.threads = 100;
  result.shared_bytes = 1024;
  return result;
}

std::optional<fa2::CompileError> refusal(const fa2::KernelSource& source) {
  try {
    fa2::make_nvrtc_compiler()->compile(source);
    return std::nullopt;
  } catch (const fa2::CompileError& error) {
    return error;
  }
}

std::string read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// A directory for the sources that this test keeps.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "fa2-test-XXXXXX";
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
    if (const char* old = std::getenv("TMPDIR")) old_ = old;
    setenv("TMPDIR", path_.c_str(), 1);
  }
  ~TemporaryDirectory() {
    if (old_) setenv("TMPDIR", old_->c_str(), 1);
    if (!old_) unsetenv("TMPDIR");
    std::filesystem::remove_all(path_);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<std::string> old_;
};

}  // namespace

TEST_CASE("a kernel becomes a cubin with its resources") {
  if (fa2::test::nvrtc_missing()) return;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    CAPTURE(arch);
    const fa2::KernelBinary binary = fa2::make_nvrtc_compiler()->compile(source(arch));
    REQUIRE(binary.code.size() > 4);
    CHECK(std::string(reinterpret_cast<const char*>(binary.code.data()), 4) ==
          "\x7f"
          "ELF");
    CHECK(binary.resources.registers > 0);
    CHECK(binary.resources.static_shared_bytes == 400);
    CHECK(binary.resources.dynamic_shared_bytes == 1024);
    CHECK(binary.resources.threads == 100);
    CHECK(binary.resources.spill_store_bytes == 0);
    CHECK(binary.compile_ms > 0);
    CHECK(binary.key == source(arch).key);
    CHECK(binary.spec == "small kernel");
    CHECK(binary.entry == "small");
    CHECK(binary.arch == arch);
    const auto version = fa2::nvrtc_version();
    CHECK(binary.compiler == "nvrtc " + std::to_string(version.major) + "." + std::to_string(version.minor));
  }
}

TEST_CASE("PTX and log of a kernel") {
  if (fa2::test::nvrtc_missing()) return;
  CHECK(fa2::nvrtc_ptx(source("sm_80")).find(".entry small") != std::string::npos);
  const std::string log = fa2::nvrtc_log(source("sm_80"));
  CHECK(log.find("Used ") != std::string::npos);
  CHECK(log.find('\0') == std::string::npos);
  CHECK(fa2::nvrtc_log(source("sm_80", "syntax error")).find("error") != std::string::npos);
}

TEST_CASE("a syntax error names the header and line, and the source is kept") {
  if (fa2::test::nvrtc_missing()) return;
  const TemporaryDirectory folder;
  auto broken = source("sm_80");
  broken.headers[0].text += "\n__device__ int wrong() { return undeclared; }\n";
  const auto error = refusal(broken);
  REQUIRE(error);
  CHECK(error->log().find("tile/twice.cuh(5): error") != std::string::npos);
  CHECK(std::string(error->what()).find("tile/twice.cuh(5): error") != std::string::npos);
  CHECK(std::string(error->what()).find("small kernel") != std::string::npos);
  CHECK(std::string(error->what()).find(error->source_path()) != std::string::npos);

  REQUIRE(error->source_path().find(folder.path() + "/fa2-" + broken.key + "-") == 0);
  CHECK(read(error->source_path()) == "// ==== tile/twice.cuh\n" + broken.headers[0].text +
                                          "\n// ==== small.cu\n" + broken.main.text + "\n");
  struct stat status {};
  REQUIRE(stat(error->source_path().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a source that cannot be kept leaves no path") {
  if (fa2::test::nvrtc_missing()) return;
  const TemporaryDirectory folder;
  setenv("TMPDIR", (folder.path() + "/missing").c_str(), 1);
  const auto error = refusal(source("sm_80", "syntax error"));
  REQUIRE(error);
  CHECK(error->source_path().empty());
  CHECK_FALSE(error->log().empty());
}

TEST_CASE("a kernel that spills is refused") {
  if (fa2::test::nvrtc_missing()) return;
  const TemporaryDirectory folder;
  const auto error = refusal(source("sm_80", R"(
extern "C" __global__ void __launch_bounds__(1024, 2) small(float* data) {
  float values[40];
  #pragma unroll
  for (int i = 0; i < 40; ++i) values[i] = data[i * 1024 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 40; ++i) data[i * 1024 + threadIdx.x] = values[i] * values[(i + 7) % 40];
})"));
  REQUIRE(error);
  CHECK(std::string(error->what()).find("of spill stores") != std::string::npos);
  CHECK(error->log().find("bytes spill stores") != std::string::npos);
  CHECK(std::filesystem::exists(error->source_path()));
}

TEST_CASE("a kernel with a stack is refused") {
  if (fa2::test::nvrtc_missing()) return;
  const TemporaryDirectory folder;
  const auto error = refusal(source("sm_90a", R"(
__device__ __noinline__ float pick(float* data, int n) {
  float values[32];
  for (int i = 0; i < 32; ++i) values[i] = data[i];
  return values[n & 31];
}
extern "C" __global__ void small(float* data) { data[0] = pick(data, static_cast<int>(data[1])); })"));
  REQUIRE(error);
  CHECK(std::string(error->what()).find("128 bytes of stack") != std::string::npos);
}

TEST_CASE("a refusal names the versions of NVRTC and of the rules") {
  if (fa2::test::nvrtc_missing()) return;
  const fa2::NvrtcVersion nvrtc = fa2::nvrtc_version();
  CHECK(fa2::make_nvrtc_compiler()->judge(*fa2::find_arch("sm_80")) ==
        fmt::format("nvrtc {}.{}, rules 1", nvrtc.major, nvrtc.minor));
}

TEST_CASE("too much shared memory is refused, if possible before compiling") {
  const TemporaryDirectory folder;
  auto large = source("sm_86", "this is never compiled");
  large.shared_bytes = large.arch.shared_per_block + 1;
  const auto dynamic = refusal(large);
  REQUIRE(dynamic);
  CHECK(std::string(dynamic->what()).find("101377 bytes of dynamic") != std::string::npos);
  CHECK(std::string(dynamic->what()).find("101376") != std::string::npos);
  CHECK(dynamic->log().empty());
  CHECK(std::filesystem::exists(dynamic->source_path()));

  if (fa2::test::nvrtc_missing()) return;
  auto sum = source("sm_86");
  sum.shared_bytes = sum.arch.shared_per_block - 100;
  const auto both = refusal(sum);
  REQUIRE(both);
  CHECK(std::string(both->what()).find("400 of static") != std::string::npos);
  sum.shared_bytes = sum.arch.shared_per_block - 400;
  CHECK_FALSE(refusal(sum));
}

TEST_CASE("serialised warpgroup MMAs are refused") {
  if (fa2::test::nvrtc_missing()) return;
  const TemporaryDirectory folder;
  const auto error = refusal(source("sm_90a", R"(
extern "C" __global__ void __launch_bounds__(128)
small(float* data, unsigned long long a, unsigned long long b) {
  float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  for (int i = 0; i < 4; ++i) {
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "l"(a), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;");
    c0 *= data[i];
  }
  data[threadIdx.x] = c0 + c1 + c2 + c3;
})"));
  REQUIRE(error);
  CHECK(std::string(error->what()).find("(C75") != std::string::npos);
}

/// Returns a kernel with `count` MMAs in a row, each with its own descriptor, which every lane reads from
/// memory.
std::string mmas_with_loaded_descriptors(int count) {
  std::string text = R"(
extern "C" __global__ void __launch_bounds__(128) small(float* data, const unsigned long long* descriptors) {
  float c[4] = {};
  asm volatile("wgmma.fence.sync.aligned;");
)";
  for (int i = 0; i < count; ++i) {
    text += fmt::format(R"(
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%0, %1, %2, %3}}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(descriptors[{0}]), "l"(descriptors[{0}]));)",
                        i);
  }
  return text + R"(
  asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]));
  data[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
})";
}

TEST_CASE("descriptors that do not stay in uniform registers are refused") {
  if (fa2::test::nvrtc_missing()) return;
  const TemporaryDirectory folder;
  CHECK_FALSE(refusal(source("sm_90a", mmas_with_loaded_descriptors(2))));
  const auto error = refusal(source("sm_90a", mmas_with_loaded_descriptors(24)));
  REQUIRE(error);
  CHECK(std::string(error->what()).find("registers to uniform ones between its warpgroup MMAs") !=
        std::string::npos);
}

TEST_CASE("options and names that give no usable cubin are refused") {
  if (fa2::test::nvrtc_missing()) return;
  const TemporaryDirectory folder;
  auto other = source("sm_80");
  other.entry = "absent";
  CHECK(std::string(refusal(other).value().what()).find("named absent") != std::string::npos);
  auto is_virtual = source("sm_80");
  is_virtual.options[0] = "--gpu-architecture=compute_80";
  CHECK(refusal(is_virtual).has_value());
  auto unknown = source("sm_80");
  unknown.options[0] = "--gpu-architecture=sm_12";
  CHECK(std::string(refusal(unknown).value().what()).find("--gpu-architecture") != std::string::npos);
}

TEST_CASE("eight threads at once compile the same bytes as one") {
  if (fa2::test::nvrtc_missing()) return;
  const auto compiler = fa2::make_nvrtc_compiler();
  const auto expected = compiler->compile(source("sm_80")).code;
  std::vector<std::vector<std::byte>> made(8);
  std::vector<std::thread> threads;
  for (auto& code : made) threads.emplace_back([&] { code = compiler->compile(source("sm_80")).code; });
  for (auto& thread : threads) thread.join();
  for (const auto& code : made) CHECK((code == expected));
}

TEST_CASE("NVRTC is searched for in the documented places") {
  const auto saved = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
  const auto restore = [](const char* name, const std::optional<std::string>& value) {
    value ? setenv(name, value->c_str(), 1) : unsetenv(name);
  };
  const auto nvrtc = saved("FA2_NVRTC"), home = saved("CUDA_HOME"), path = saved("CUDA_PATH");
  unsetenv("FA2_NVRTC");
  setenv("CUDA_HOME", "/cuda-home", 1);
  setenv("CUDA_PATH", "/cuda-path", 1);
  CHECK(fa2::nvrtc_candidates() ==
        std::vector<std::string>{
            "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/cuda-home/lib64/libnvrtc.so.13",
            "/cuda-home/lib64/libnvrtc.so.12", "/cuda-home/lib64/libnvrtc.so",
            "/cuda-path/lib64/libnvrtc.so.13", "/cuda-path/lib64/libnvrtc.so.12",
            "/cuda-path/lib64/libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so.13",
            "/usr/local/cuda/lib64/libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"});
  setenv("FA2_NVRTC", "/somewhere/libnvrtc.so", 1);
  CHECK(fa2::nvrtc_candidates() == std::vector<std::string>{"/somewhere/libnvrtc.so"});
  restore("FA2_NVRTC", nvrtc);
  restore("CUDA_HOME", home);
  restore("CUDA_PATH", path);
}

TEST_CASE("the error for a missing or foreign NVRTC says what was tried and what to install") {
  const auto failure = [](const std::string& candidate) -> std::string {
    try {
      fa2::Nvrtc opened({candidate});
    } catch (const fa2::Unavailable& error) {
      return error.what();
    }
    return {};
  };
  const std::string missing = failure("/nonexistent/libnvrtc.so.13");
  CHECK(missing.find("/nonexistent/libnvrtc.so.13: cannot open shared object file") != std::string::npos);
  CHECK(missing.find("pip install nvidia-cuda-nvrtc") != std::string::npos);
  CHECK(missing.find("FA2_NVRTC") != std::string::npos);
  CHECK(failure("libm.so.6").find("has no nvrtc") != std::string::npos);
}
