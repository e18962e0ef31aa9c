// The Compiler that uses NVRTC: compiles source and checks the cubin.
#include <fa2/errors.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <runtime/compiler.h>
#include <runtime/nvrtc.h>
#include <runtime/ptxas_log.h>
#include <runtime/sass.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <string_view>
#include <system_error>

namespace fa2 {
namespace {

/// Constant, because NVRTC hashes it into the names of file-local symbols.
constexpr const char* kProgramName = "fa2.cu";

std::atomic<bool> is_cancelled = false;

/// Owns an NVRTC program.
class Program {
 public:
  explicit Program(const KernelSource& source) {
    std::vector<const char*> texts;
    std::vector<const char*> names;
    for (const SourceFile& header : source.headers) {
      texts.push_back(header.text.c_str());
      names.push_back(header.name.c_str());
    }
    require(nvrtc_.create_program(&program_, source.main.text.c_str(), kProgramName,
                                  static_cast<int>(texts.size()), texts.data(), names.data()),
            "nvrtcCreateProgram");
    if (nvrtc_.set_flow_callback != nullptr)
      nvrtc_.set_flow_callback(
          program_, [](void*, void*) { return is_cancelled ? 1 : 0; }, nullptr);
  }
  ~Program() { nvrtc_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Compiles. @throws Unavailable if NVRTC lacks one of its files; returns every other failure.
  nvrtcResult compile(const std::vector<std::string>& options) {
    std::vector<const char*> arguments;
    for (const std::string& option : options)
      if (option != "--no-cache" || keeps_cache()) arguments.push_back(option.c_str());
    const auto start = std::chrono::steady_clock::now();
    const nvrtcResult result =
        nvrtc_.compile_program(program_, static_cast<int>(arguments.size()), arguments.data());
    milliseconds_ =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
      throw Unavailable(
          fmt::format("{} cannot work: {}\nlibnvrtc-builtins.so.{}.{} must lie in the same folder",
                      nvrtc_.library.path(), log(), nvrtc_.major, nvrtc_.minor));
    }
    return result;
  }

  double milliseconds() const { return milliseconds_; }
  std::string log() const { return text(nvrtc_.get_log_size, nvrtc_.get_log, "nvrtcGetProgramLog"); }
  std::string ptx() const { return text(nvrtc_.get_ptx_size, nvrtc_.get_ptx, "nvrtcGetPTX"); }

  /// Returns the cubin; empty if the options name no real architecture.
  std::vector<std::byte> cubin() const {
    std::size_t size = 0;
    if (nvrtc_.get_cubin_size(program_, &size) != NVRTC_SUCCESS) return {};
    std::vector<std::byte> bytes(size);
    if (size > 0) require(nvrtc_.get_cubin(program_, reinterpret_cast<char*>(bytes.data())), "nvrtcGetCUBIN");
    return bytes;
  }

 private:
  /// Returns whether this NVRTC caches compiled code on disk. Versions before 12.9 do not, and reject --no-cache.
  bool keeps_cache() const { return std::pair(nvrtc_.major, nvrtc_.minor) >= std::pair(12, 9); }

  void require(nvrtcResult result, const char* call) const {
    if (result == NVRTC_SUCCESS) return;
    throw Error(ErrorCode::internal, fmt::format("{}: {}", call, nvrtc_.get_error_string(result)));
  }

  /// NVRTC's sizes include the terminating 0.
  template <class GetSize, class Get>
  std::string text(GetSize get_size, Get get, const char* call) const {
    std::size_t size = 0;
    require(get_size(program_, &size), call);
    std::string result(size, '\0');
    if (size > 0) require(get(program_, result.data()), call);
    while (!result.empty() && result.back() == '\0')
      result.pop_back();  // ptxas ends its part of the log with one too
    return result;
  }

  const Nvrtc& nvrtc_ = nvrtc();
  nvrtcProgram program_ = nullptr;
  double milliseconds_ = 0;
};

/// Writes the source to a new file that only this user can read. Returns its path; empty if it cannot be
/// written.
std::string keep_source(const KernelSource& source) {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  if (error) return {};
  std::string path = folder / ("fa2-" + source.key + "-XXXXXX.cu");
  const int fd = mkostemps(path.data(), 3, O_CLOEXEC);
  if (fd < 0) return {};
  std::string text;
  for (const SourceFile& header : source.headers)
    text += "// ==== " + header.name + "\n" + header.text + "\n";
  text += "// ==== " + source.main.name + "\n" + source.main.text + "\n";
  std::FILE* file = fdopen(fd, "w");
  if (file == nullptr) {
    close(fd);
    unlink(path.c_str());
    return {};
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) == 0 && written) return path;
  unlink(path.c_str());
  return {};
}

std::string describe(const KernelSource& source, const std::string& reason, const std::string& path) {
  const std::string where = path.empty() ? "the source could not be kept" : "source kept in " + path;
  return fmt::format("{} for {}: {}; {}", source.spec, source.arch.name, reason, where);
}

[[noreturn]] void fail(const KernelSource& source, const std::string& reason, const std::string& log) {
  const std::string path = keep_source(source);
  throw CompileError(describe(source, reason, path), log, path);
}

std::string compiler_name() {
  return fmt::format("nvrtc {}.{}", nvrtc().major, nvrtc().minor);
}

[[noreturn]] void refuse(const KernelSource& source, const std::string& rule, const std::string& log) {
  const std::string path = keep_source(source);
  const std::string reason = fmt::format("{} ({})", rule, compiler_name());
  throw KernelRefused(describe(source, reason, path), reason, log, path);
}

/// Returns the log's first line with an error; empty if there is none.
std::string first_error(std::string_view log) {
  const std::size_t at = log.find("error");
  if (at == std::string_view::npos) return {};
  const std::size_t before = log.rfind('\n', at);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return std::string(log.substr(begin, log.find('\n', at) - begin));
}

std::string too_much_shared(const KernelSource& source, std::int32_t static_bytes) {
  return fmt::format("needs {} bytes of dynamic and {} of static shared memory per block; {} has {}",
                     source.shared_bytes, static_bytes, source.arch.name, source.arch.shared_per_block);
}

/// Returns the resource rule that a kernel violates, as a sentence; empty for a good kernel.
std::string broken_resource_rule(const KernelSource& source, const PtxasReport& report) {
  const KernelResources& r = report.resources;
  if (r.spill_store_bytes != 0 || r.spill_load_bytes != 0 || r.stack_bytes != 0) {
    return fmt::format(
        "uses local memory with {} registers per thread: {} bytes of stack, {} of spill stores, {} of "
        "spill loads",
        r.registers, r.stack_bytes, r.spill_store_bytes, r.spill_load_bytes);
  }
  if (r.static_shared_bytes + source.shared_bytes > source.arch.shared_per_block) {
    return too_much_shared(source, r.static_shared_bytes);
  }
  if (!report.wgmma_messages.empty()) {
    return "ptxas changed the warpgroup MMAs: " + report.wgmma_messages.front();
  }
  return {};
}

/// Version of broken_resource_rule() and refuse_uniform_moves(). Every change of these rules must raise it, so that
/// kernels that the old rules refused are compiled again.
constexpr int kRulesVersion = 1;

/// Most moves to uniform registers. Nearly every sm90 forward kernel has none, and a few with head dim 256
/// have up to 10. Dozens cost a tenth of the speed.
constexpr int kMostUniformMoves = 32;

void refuse_uniform_moves(const KernelSource& source, const std::vector<std::byte>& cubin,
                          const std::string& log) {
  const int moves = uniform_moves_between_mmas(cubin);
  if (moves > kMostUniformMoves)
    refuse(source, fmt::format("moves {} registers to uniform ones between its warpgroup MMAs", moves), log);
}

bool is_elf(const std::vector<std::byte>& code) {
  constexpr std::byte kMagic[] = {std::byte{0x7f}, std::byte{'E'}, std::byte{'L'}, std::byte{'F'}};
  return code.size() > std::size(kMagic) && std::equal(std::begin(kMagic), std::end(kMagic), code.begin());
}

void compile_or_refuse(Program& program, const KernelSource& source) {
  const nvrtcResult result = program.compile(source.options);
  if (result == NVRTC_SUCCESS) return;
  if (is_cancelled) throw Interrupted("the process exits: nothing is compiled any more");
  const std::string log = program.log();
  fail(source, fmt::format("{}: {}", nvrtc().get_error_string(result), first_error(log)), log);
}

class NvrtcCompiler final : public Compiler {
 public:
  std::string judge(const Arch&) override {
    return fmt::format("{}, rules {}", compiler_name(), kRulesVersion);
  }

  KernelBinary compile(const KernelSource& source) override {
    if (source.shared_bytes > source.arch.shared_per_block) {
      refuse(source, too_much_shared(source, 0), "");
    }
    Program program(source);
    compile_or_refuse(program, source);
    const std::string log = program.log();
    const PtxasReport report = parse_ptxas_log(log, source.entry);
    if (report.resources.registers == 0) {
      fail(source,
           fmt::format("ptxas reported nothing on a kernel named {} (options: {})", source.entry,
                       fmt::join(source.options, " ")),
           log);
    }
    const std::string broken = broken_resource_rule(source, report);
    if (!broken.empty()) refuse(source, broken, log);

    KernelBinary binary;
    binary.key = source.key;
    binary.spec = source.spec;
    binary.arch = source.arch.name;
    binary.entry = source.entry;
    binary.compiler = compiler_name();
    binary.compile_ms = program.milliseconds();
    binary.resources = report.resources;
    binary.resources.dynamic_shared_bytes = source.shared_bytes;
    binary.resources.threads = source.threads;
    binary.code = program.cubin();
    if (!is_elf(binary.code))
      fail(source, "NVRTC made no cubin (--gpu-architecture must name an sm_ target)", log);
    if (source.arch.compute_capability == 90) refuse_uniform_moves(source, binary.code, log);
    return binary;
  }
};

}  // namespace

void start_nvrtc(const Arch& arch) {
  static std::once_flag started;
  std::call_once(started, [&] {
    KernelSource source;
    source.main.text = "extern \"C\" __global__ void empty() {}";
    source.options = compile_options(arch);
    Program(source).compile(source.options);
  });
}

void cancel_compilations() {
  is_cancelled = true;
}

void discard_source(const CompileError& error) {
  if (!error.source_path().empty()) unlink(error.source_path().c_str());
}

std::unique_ptr<Compiler> make_nvrtc_compiler() {
  return std::make_unique<NvrtcCompiler>();
}

std::string nvrtc_ptx(const KernelSource& source) {
  Program program(source);
  compile_or_refuse(program, source);
  return program.ptx();
}

std::string nvrtc_log(const KernelSource& source) {
  Program program(source);
  const nvrtcResult result = program.compile(source.options);
  const std::string log = program.log();
  return result == NVRTC_SUCCESS ? log : log + nvrtc().get_error_string(result) + "\n";
}

NvrtcVersion nvrtc_version() {
  return {nvrtc().major, nvrtc().minor, nvrtc().library.path()};
}

}  // namespace fa2
