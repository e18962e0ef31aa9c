// The fa2 command as a user runs it: exit statuses, stdout and stderr, --json.
#include <core/arch.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/compiler.h>
#include <runtime/disk_cache.h>
#include <runtime/env.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/command.h>
#include <tools/npy.h>

#include <fstream>
#include <string>

#ifdef FA2_COMMAND

namespace {

using namespace fa2::test;

const char* const kVerbs[] = {"info", "run", "bench", "tune", "precompile", "cache", "explain", "dump"};
const std::string kOneKernel =
    " --arch sm_80 --head-dim 16 --dtype f16 --causal no --alignment element --batch-invariant yes --json";

bool has_nvrtc() {
  try {
    fa2::nvrtc_version();
    return true;
  } catch (const fa2::Error& error) {
    MESSAGE("skipped: it needs NVRTC: " << error.what());
    return false;
  }
}

/// Writes inputs of shape (1, 4, 2, 16) and returns their flags.
std::string inputs(const Command& fa2) {
  std::string flags;
  for (const char* name : {"q", "k", "v"}) {
    fa2::tools::write_npy(fa2.file(name), {{1, 4, 2, 16}, std::vector<std::uint16_t>(128, 0x3c00)});
    flags += fa2.option(std::string("--") + name, name);
  }
  return flags + fa2.option("--out", "o.npy");
}

}  // namespace

TEST_CASE("cli: every verb has help with an example and --json") {
  const Command fa2;
  CHECK(fa2.run("--help").status == 0);
  CHECK(fa2.run("--version").out == "0.1.0\n");
  for (const std::string verb : kVerbs) {
    CAPTURE(verb);
    const Result help = fa2.run(verb + " --help");
    CHECK(help.status == 0);
    CHECK(help.err.empty());
    CHECK(help.out.find("--json") != std::string::npos);
    CHECK(help.out.find("Example:\n  fa2 " + verb) != std::string::npos);
  }
}

TEST_CASE("cli: wrong usage is status 2, a message on stderr and nothing on stdout") {
  const Command fa2;
  for (const char* arguments : {"",
                                "fly",
                                "info --fast",
                                "cache",
                                "cache burn",
                                "cache list --max-mb 1",
                                "dump --arch sm_80",
                                "dump --arch sm_80 --ptx --log",
                                "explain --arch sm_1",
                                "explain --arch sm_80 --head-dim 7",
                                "explain --arch sm_80 --dtype f32",
                                "explain --arch sm_80 --device cuda:0",
                                "explain --device gpu0",
                                "explain --arch sm_80 --causal --mask none",
                                "tune --budget-ms -1",
                                "tune --all=some",
                                "tune --heads 4 --heads-kv 3",
                                "bench --head-dim 64,x",
                                "bench --seqlen 0",
                                "bench --rounds 0",
                                "bench --tune maybe",
                                "precompile",
                                "precompile --arch sm_80,sm_1",
                                "precompile --arch sm_80 --head-dim 300",
                                "dump --ptx --arch interpreter",
                                "run --q x.npy"}) {
    CAPTURE(arguments);
    const Result result = fa2.run(arguments);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK_FALSE(result.err.empty());
  }
}

TEST_CASE("cli: an unknown verb is named, with the one that was probably meant") {
  const Command fa2;
  const Result result = fa2.run("rnu --q x.npy");
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(result.says("there is no verb \"rnu\"; did you mean run?"));
  CHECK(fa2.run("fly").says("there is no verb \"fly\". There are info, run, bench"));
  CHECK(fa2.run("$(printf '\\377')").says("\"\\xff\""));
}

TEST_CASE("cli: help offers the devices that a verb accepts") {
  const Command fa2;
  for (const std::string verb : kVerbs) {
    CAPTURE(verb);
    const std::string help = fa2.run(verb + " --help").out;
    const std::size_t at = help.find("--device");
    if (at == std::string::npos) continue;
    const bool offers = help.find("interpreter (the CPU", at) != std::string::npos;
    CHECK(offers == (verb == "run" || verb == "explain" || verb == "dump"));
  }
}

TEST_CASE("cli: info describes the machine and every variable, even with wrong settings") {
  const Command fa2;
  const Result result = fa2.run("info --json", "FA2_TUNE=perhaps FA2_CACHE_PATH=/nowhere");
  REQUIRE(result.status == 0);
  const Json info = result.json();
  CHECK(info.at("archs").size() == fa2::known_archs().size());
  CHECK(info.at("gpus").empty());
  CHECK_FALSE(info.at("no_gpu").get<std::string>().empty());
  REQUIRE(info.at("environment").size() == fa2::environment().size());
  for (const Json& variable : info.at("environment")) {
    if (variable.at("name") == "FA2_TUNE") {
      CHECK(variable.at("value") == "perhaps");
      CHECK(variable.at("error").get<std::string>().find("must be one of off") != std::string::npos);
    }
    if (variable.at("name") == "FA2_CONFIG") CHECK(variable.at("value").is_null());
  }
  CHECK(info.at("settings_error").get<std::string>().find("FA2_TUNE") != std::string::npos);
  CHECK(info.at("settings_warning").get<std::string>().find("FA2_CACHE_PATH = \"/nowhere\"") == 0);
  REQUIRE(info.at("caches").size() == 2);
  CHECK(info.at("caches")[0].at("path") == "/nowhere");
  CHECK(info.at("caches")[1].at("entries") == 0);
  CHECK(fa2.run("info").out.find("FA2_CACHE_DIR") != std::string::npos);
}

TEST_CASE("cli: a verb that measures a GPU says so if there is none") {
  const Command fa2;
  for (const std::string verb : {"bench", "tune"}) {
    CAPTURE(verb);
    const Result result = fa2.run(verb);
    CHECK(result.status == 1);
    CHECK(result.out.empty());
    CHECK(result.says("no GPU was found"));
    CHECK(result.says("fa2 precompile"));
    CHECK(fa2.run(verb + " --json").json().at("error").get<std::string>().find("no GPU") == 0);
    CHECK(fa2.run(verb + " --device interpreter").says("this measures a GPU"));
  }
  CHECK(fa2.run("tune --all --budget-ms 60000").says("no GPU was found"));
}

TEST_CASE("cli: without a GPU, run computes on the interpreter and says so once") {
  const Command fa2;
  const std::string files = inputs(fa2) + " --check --json";
  const Result chosen = fa2.run("run" + files);
  CAPTURE(chosen.err);
  REQUIRE(chosen.status == 0);
  CHECK(chosen.says("no GPU was found: kernels are interpreted"));
  CHECK(chosen.json().at("check").at("ok") == true);
  CHECK(chosen.json().at("explanation").at("kernels").at(0).at("origin") == "compiled");
  CHECK(std::filesystem::exists(fa2.file("o.npy")));

  const Result asked = fa2.run("run" + files + " --device interpreter");
  REQUIRE(asked.status == 0);
  CHECK(asked.err.empty());
  CHECK(asked.json().at("explanation").at("kernels").at(0).at("origin") == "disk_cache");
  CHECK(fa2.run("explain", "FA2_DEVICE=interpreter").err.empty());

  const Result no_such_gpu = fa2.run("run" + files + " --device cuda:0 --scale -0.5");
  CHECK(no_such_gpu.status == 1);
  CHECK(no_such_gpu.json().at("error").get<std::string>().find("libcuda") != std::string::npos);
  CHECK(fa2.run("run" + files, "FA2_DEVICE=tpu").says("FA2_DEVICE"));
  CHECK(fa2.run("run" + files, "FA2_INTERPRETER=later").says("FA2_INTERPRETER"));
}

TEST_CASE("cli: an output that cannot be written is reported before anything is read or computed") {
  const Command fa2;
  const Result run = fa2.run("run --q none --k none --v none" + fa2.option("--out", "none/o.npy"));
  CHECK(run.status == 1);
  CHECK(run.says("none/o.npy: No such file or directory"));
  std::ofstream(fa2.file("file")) << "no directory";
  const Result precompile =
      fa2.run("precompile" + kOneKernel + fa2.option("--out", "file/pack"), "FA2_NVRTC=/none.so");
  CHECK(precompile.status == 1);
  CHECK(precompile.says("file/pack: Not a directory"));
  CHECK_FALSE(precompile.says("/none.so"));
}

TEST_CASE(
    "cli: an output that would overwrite another one or an input is rejected before anything is computed") {
  const Command fa2;
  const std::string run = "run" + inputs(fa2);
  const auto refuses = [&](const std::string& words, const std::string& text) {
    CAPTURE(words);
    const Result result = fa2.run(words);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.says(text + ": give the output a file of its own"));
    CHECK_FALSE(std::filesystem::exists(fa2.file("o.npy")));
  };
  const std::string qkv = run.substr(0, run.find(" --out"));
  refuses(run + fa2.option("--lse", "./o.npy"), "must not be the file of --out");
  refuses(qkv + fa2.option("--out", "v"),
          "--out = \"" + fa2.file("v").string() + "\", must not be the file of --v");
  refuses(run + fa2.option("--alibi", "slopes") + fa2.option("--lse", "slopes"),
          "must not be the file of --alibi");
  const std::string backward = qkv + " --backward" + fa2.option("--d-out", "q");
  refuses(backward + fa2.option("--dq", "o.npy") + fa2.option("--dk", "o.npy"),
          "must not be the file of --dq");
  refuses(backward + fa2.option("--dv", "l") + fa2.option("--out", "q") + fa2.option("--lse", "l"),
          "must not be the file of --lse");
}

TEST_CASE("cli: run names the file that is wrong") {
  const Command fa2;
  const std::string files = inputs(fa2);
  std::filesystem::remove(fa2.file("v"));
  CHECK(fa2.run("run" + files).says(fa2.file("v").string() + ": No such file"));
  fa2::tools::write_npy(fa2.file("v"), {{1, 5, 2, 16}, std::vector<float>(160)});
  const Result result = fa2.run("run" + files);
  CHECK(result.status == 1);
  CHECK(result.says("v's seqlen = 5, must be that of k, 4"));
}

TEST_CASE("cli: precompile, then list, verify and prune the cache") {
  if (!has_nvrtc()) return;
  const Command fa2;
  const std::string out = fa2.option("--out", "pack"), dir = fa2.option("--dir", "pack") + " --json";
  const Result first = fa2.run("precompile" + kOneKernel + out);
  CAPTURE(first.err);
  REQUIRE(first.status == 0);
  CHECK(first.err.empty());
  const Json made = first.json();
  REQUIRE(made.at("kernels").size() == 1);
  CHECK(made.at("compiled") == 1);
  CHECK(made.at("kernels")[0].at("resources").at("registers") > 0);
  CHECK(fa2.run("precompile" + kOneKernel + out).json().at("cached") == 1);

  // With a warm cache the command does not even look for NVRTC.
  const Json found = fa2.run("precompile" + kOneKernel + out, "FA2_NVRTC=/none.so").json();
  CHECK(found.at("failed") == 0);
  CHECK(found.at("cached") == 1);

  const Json list = fa2.run("cache list" + dir).json();
  REQUIRE(list.at("entries").size() == 1);
  CHECK(list.at("entries")[0].at("key") == made.at("kernels")[0].at("key"));
  CHECK(fa2.run("cache verify" + dir).status == 0);

  const std::filesystem::path path = list.at("entries")[0].at("path").get<std::string>();
  std::string bytes = fa2::test::read_text(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  const Result damaged = fa2.run("cache verify" + dir);
  CHECK(damaged.status == 1);
  CHECK(damaged.json().at("damaged") == 1);
  CHECK(damaged.says(path.string()));

  CHECK(fa2.run("cache prune --max-mb 0" + dir).json().at("removed_files") == 1);
  CHECK(fa2.run("cache list" + dir).json().at("entries").empty());
}

TEST_CASE(
    "cli: if a kernel is missing with FA2_JIT=off, the command in the message builds it, for every user") {
  if (!has_nvrtc()) return;
  const Command fa2;
  const std::string explain = "explain --arch sm_80 --head-dim 16 --causal --seqlen 300 --json";
  const Result missing = fa2.run(explain, "FA2_JIT=off");
  CHECK(missing.status == 1);
  const std::size_t begin = missing.err.find("FA2_CONFIG="),
                    command = missing.err.find("fa2 precompile", begin);
  REQUIRE(command != std::string::npos);
  std::string arguments = missing.err.substr(command + 4);
  arguments = arguments.substr(0, arguments.find("--out DIR")) + fa2.option("--out", "pack");
  const Result made = fa2.run(arguments, missing.err.substr(begin, command - begin));
  CAPTURE(made.err);
  REQUIRE(made.status == 0);

  const Json found =
      fa2.run(explain, "FA2_JIT=off FA2_CACHE_PATH=" + fa2.file("pack").string()).json().at("kernels").at(0);
  CHECK(found.at("origin") == "read_only_cache");
  CHECK(fa2::test::mode_of(fa2.file("pack")) == 0755);
  CHECK(fa2::test::mode_of(found.at("path").get<std::string>()) == 0644);
}

TEST_CASE("cli: info reports kernels of an older format in a cache") {
  const Command fa2;
  std::filesystem::create_directories(fa2.file("cache") / "v1");
  std::ofstream(fa2.file("cache") / "tuning.jsonl") << "{\"format\":1}\n";
  const std::string out = fa2.run("info").out;
  CHECK(out.find("v1: kernels of an older format; remove the folder") != std::string::npos);
  CHECK(out.find("not used: 1 tuning records of an older format") != std::string::npos);
}

TEST_CASE("cli: cache, info and explain report files that others could have written, and the remedy") {
  using fa2::DiskCache;
  const Command fa2;
  const std::filesystem::path pack = fa2.file("pack"), folder = pack / "v2" / "sm_80";
  const std::string dir = fa2.option("--dir", "pack"), path = "FA2_CACHE_PATH=" + pack.string();
  fa2::KernelBinary interpreted = fa2::test::small_binary();
  interpreted.arch = fa2::interpreter_arch().name;
  for (const fa2::KernelBinary& binary : {fa2::test::small_binary(), interpreted})
    REQUIRE(DiskCache(pack, DiskCache::Access::read_write).store(binary));
  CHECK(fa2.run("cache verify" + dir).status == 0);
  std::filesystem::permissions(folder, std::filesystem::perms(0777));
  const std::string why =
      "every user may write to " + folder.string() + ": `chmod -R go-w " + folder.string() + "`";

  const Json entry = fa2.run("cache list --json" + dir).json().at("entries").back();
  CHECK(entry.at("untrusted") == true);
  CHECK(entry.at("damage").get<std::string>().find(why) == 0);
  const Result list = fa2.run("cache list" + dir), verify = fa2.run("cache verify" + dir);
  CHECK(list.out.find("not trusted: " + why) != std::string::npos);
  CHECK(list.out.find("1 kernels, ") != std::string::npos);
  CHECK(list.out.find(", 1 not trusted\n") != std::string::npos);
  CHECK(verify.status == 1);
  CHECK(verify.says(why));

  const Json not_used = fa2.run("info --json", path).json().at("caches")[0].at("not_used");
  REQUIRE(not_used.size() == 2);
  CHECK(not_used[0].get<std::string>().find(why) == 0);
  CHECK(not_used[1].get<std::string>().find("FA2_CACHE_TRUST=host") != std::string::npos);
  CHECK(fa2.run("info", path).out.find("; not used: " + why) != std::string::npos);
  CHECK(fa2.run("info --json", path + " FA2_CACHE_TRUST=1").json().at("caches")[0].at("not_used").empty());

  const std::string explain = "explain --arch sm_80 --head-dim 16 --json";
  CHECK(fa2.run(explain, path + " FA2_JIT=off").says(why));
  if (!has_nvrtc()) return;
  const Result found = fa2.run(explain, path);
  CHECK(found.json().at("notes").get<std::string>().find(why) != std::string::npos);
  CHECK(found.says("cache directory " + pack.string() + " is not used: " + why));
}

TEST_CASE("cli: cache with a directory that does not exist") {
  const Command fa2;
  CHECK(fa2.run("cache list --json").json().at("entries").empty());
  const Result result = fa2.run("cache list" + fa2.option("--dir", "none"));
  CHECK(result.status == 1);
  CHECK(result.says("none is no directory and no pack (.fa2pack)"));
}

TEST_CASE("cli: without a compiler, precompile reports each kernel that failed") {
  const Command fa2;
  const Result result =
      fa2.run("precompile" + kOneKernel + fa2.option("--out", "pack"), "FA2_NVRTC=/none.so");
  CHECK(result.status == 1);
  CHECK(result.json().at("failed") == 1);
  CHECK(result.json().at("kernels")[0].at("error").get<std::string>().find("/none.so") != std::string::npos);
  CHECK(result.says("/none.so"));
}

TEST_CASE("cli: explain and dump for an arch") {
  const Command fa2;
  const std::string problem = " --arch sm_80 --head-dim 16 --json";
  const Json source = fa2.run("dump --source" + problem, "FA2_CONFIG=tile_m=128").json();
  CHECK(source.at("source")[0].at("name") == "config.cuh");
  CHECK(source.at("source")[0].at("text").get<std::string>().find("tile_m = 128") != std::string::npos);
  CHECK(fa2.run("dump --source --arch sm_80").out.find("// ==== config.cuh\n") == 0);

  const Result strict = fa2.run("explain" + problem, "FA2_JIT=off");
  CHECK(strict.status == 1);
  CHECK(strict.json().at("error").get<std::string>().find("fa2 precompile") != std::string::npos);

  if (!has_nvrtc()) return;
  CHECK(fa2.run("explain" + problem).json().at("kernels").at(0).at("origin") == "compiled");
  CHECK(fa2.run("explain" + problem).json().at("kernels").at(0).at("origin") == "disk_cache");
  CHECK(fa2.run("dump --ptx" + problem).json().at("ptx").get<std::string>().find(".target sm_80") !=
        std::string::npos);
  CHECK(fa2.run("dump --log" + problem).json().at("log").get<std::string>().find("registers") !=
        std::string::npos);
}

TEST_CASE("cli: a stdout that cannot be written is a failure") {
  const Command fa2;
  if (!std::filesystem::exists("/dev/full")) {
    MESSAGE("skipped: there is no /dev/full");
    return;
  }
  CHECK(fa2.run("info --json 2>/dev/null >/dev/full; exit $? #").status == 1);
}

#else
TEST_CASE("cli") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
