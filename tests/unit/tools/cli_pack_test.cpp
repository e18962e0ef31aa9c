// fa2 pack, and fa2 precompile into packs: the commands as people type them.
#include <doctest/doctest.h>
#include <runtime/pack_builder.h>
#include <tests/support/cache_fixtures.h>
#include <tests/support/command.h>

#include <filesystem>
#include <string>

#if defined(FA2_COMMAND) && defined(FA2_FAKE_NVRTC)

using namespace fa2::test;

namespace {

using fa2::PackBuilder;

const std::string kArchs = " --arch sm_80,sm_90a --head-dim 64 --dtype bf16 --causal yes --append";

/// A folder with the fa2 command and a compiler that takes no time.
struct Packs : Command {
  Result call(const std::string& arguments) const { return run(arguments, "FA2_NVRTC=" FA2_FAKE_NVRTC); }
  std::string bytes(const std::string& name) const { return read_text(file(name)); }
  /// Makes a pack in the folder with a kernel of this library version.
  void make(const std::string& name, const std::string& code = "code") const {
    PackBuilder pack(file(name));
    pack.store(small_binary(kKey, code));
    pack.write();
  }
};

}  // namespace

TEST_CASE_FIXTURE(Packs, "cli pack: two runs and two shards give the same bytes") {
  const Result made = call("precompile --json" + kArchs + option("--out", "one.fa2pack"));
  CHECK(made.status == 0);
  CHECK(made.json().at("failed") == 0);
  CHECK(call("precompile --jobs 1" + kArchs + option("--out", "two.fa2pack")).status == 0);
  CHECK(bytes("one.fa2pack") == bytes("two.fa2pack"));

  for (const std::string i : {"1", "2", "3"})
    CHECK(call("precompile" + kArchs + " --shard " + i + "/3" + option("--out", i + ".fa2pack")).status == 0);
  CHECK(bytes("1.fa2pack").size() < bytes("one.fa2pack").size());
  const std::string shards =
      " " + file("3.fa2pack").string() + " " + file("1.fa2pack").string() + " " + file("2.fa2pack").string();
  CHECK(call("pack merge" + shards + option("--out", "merged.fa2pack")).status == 0);
  CHECK(bytes("merged.fa2pack") == bytes("one.fa2pack"));

  const Json stats = call("pack stats --json " + file("one.fa2pack").string()).json();
  std::size_t kernels = 0;
  for (const Json& kind : stats.at("kinds")) kernels += kind.at("kernels").get<std::size_t>();
  CHECK(kernels == made.json().at("kernels").size());
  const Result listed = call("pack list --json " + file("one.fa2pack").string());
  CHECK(listed.json().at("entries").size() == kernels);
  CHECK(call("pack verify " + file("one.fa2pack").string()).out.find(" 0 rejected") != std::string::npos);
}

TEST_CASE_FIXTURE(Packs, "cli pack: verify names a damaged kernel and one of another version") {
  make("k.fa2pack");
  const std::string pack = file("k.fa2pack").string();
  const Result other = call("pack verify " + pack);
  CHECK(other.status == 1);
  CHECK(other.says("k.fa2pack/sm_80/" + kKey + ": a version of fa2 made it that did not say which"));
  std::string text = bytes("k.fa2pack");
  text.back() ^= 1;
  write_text(pack, text);
  const Result damaged = call("pack verify " + pack);
  CHECK(damaged.status == 1);
  CHECK(damaged.says("checksum differs"));
  write_text(pack, "text");
  CHECK(call("pack verify " + pack).says("truncated"));
}

TEST_CASE_FIXTURE(Packs, "cli pack: diff lists what differs, and merge refuses it") {
  make("a.fa2pack");
  make("b.fa2pack", "other code");
  const std::string both = file("a.fa2pack").string() + " " + file("b.fa2pack").string();
  const Result diff = call("pack diff --json " + both);
  CHECK(diff.status == 1);
  CHECK(diff.json().at("differences").at(0).at("difference") == "contents differ");
  CHECK(call("pack diff " + file("a.fa2pack").string() + " " + file("a.fa2pack").string()).status == 0);
  const Result merged = call("pack merge " + both + option("--out", "c.fa2pack"));
  CHECK(merged.status == 1);
  CHECK(merged.says("differs from the kernel of this name"));
  CHECK_FALSE(std::filesystem::exists(file("c.fa2pack")));
}

TEST_CASE_FIXTURE(Packs, "cli pack: a pack of logged requests covers them, and nothing else does") {
  const std::string log = file("requests.jsonl").string();
  write_text(
      log,
      R"({"arch": "sm_90a", "device": "NVIDIA H100", "sm_count": 132, "problem": {"head_dim": 64, "seqlen_q": 700, "seqlen_k": 700}})"
      "\n"
      R"({"operation": "append", "arch": "sm_90a", "problem": {"head_dim": 64}})"
      "\n");
  const std::string requests = " --requests " + log, pack = file("k.fa2pack").string();
  CHECK(call("precompile --exact" + requests + option("--out", "k.fa2pack")).status == 0);
  const Result covered = call("pack covers --json " + pack + requests);
  CHECK(covered.status == 0);
  CHECK(covered.json().at("kernels") == 2);
  make("other.fa2pack");
  const Result missing = call("pack covers " + file("other.fa2pack").string() + requests);
  CHECK(missing.status == 1);
  CHECK(missing.out.find("2 requests need 2 kernels: 2 missing") != std::string::npos);
  CHECK(missing.out.find("fa2 precompile --arch sm_90a") != std::string::npos);
  // Any size of these problems, on other GPUs: more kernels.
  CHECK(call("precompile --arch sm_80" + requests + option("--out", "any.fa2pack")).status == 0);
  CHECK(bytes("any.fa2pack").size() > bytes("k.fa2pack").size());
}

TEST_CASE_FIXTURE(Packs, "cli pack: C source and object contain the pack") {
  make("k.fa2pack");
  const std::string pack = file("k.fa2pack").string();
  CHECK(call("pack embed " + pack + option("--out", "k.c")).status == 0);
  CHECK(bytes("k.c").find("fa2_pack_add(\"k.fa2pack\"") != std::string::npos);
  CHECK(call("pack embed --name kernels " + pack + option("--out", "k.o")).status == 0);
  CHECK(bytes("k.o").find(bytes("k.fa2pack")) != std::string::npos);
  CHECK(bytes("k.o").find("fa2_pack_add") != std::string::npos);
  const Result failed = call("pack embed --cc false " + pack + option("--out", "f.o"));
  CHECK(failed.status == 1);
  CHECK(failed.says("false ended with status 1"));
  CHECK_FALSE(std::filesystem::exists(file("f.o")));
}

TEST_CASE_FIXTURE(Packs, "cli pack: info lists packs, and says why one is not used") {
  make("k.fa2pack");
  write_text(file("bad.fa2pack"), "text");
  const std::string path =
      "FA2_CACHE_PATH=" + file("k.fa2pack").string() + ":" + file("bad.fa2pack").string();
  const Json caches = run("info --json", path).json().at("caches");
  CHECK(caches.at(0).at("path") == file("k.fa2pack").string());
  CHECK(caches.at(0).at("entries") == 1);
  CHECK(caches.at(0).at("not_used").empty());
  CHECK(caches.at(1).at("entries") == 0);
  CHECK(caches.at(1).at("not_used").at(0).get<std::string>().find("truncated") != std::string::npos);
}

TEST_CASE_FIXTURE(Packs, "cli pack: one message lists every flag that does not fit") {
  CHECK(call("pack pour k.fa2pack").status == 2);
  const Result merge = call("pack merge a.fa2pack --requests r --name n");
  CHECK(merge.status == 2);
  for (const char* part : {"--out", "--requests", "--name"}) CHECK(merge.says(part));
  CHECK(call("pack diff a.fa2pack").says("must be two with diff"));
  CHECK(call("pack list a.fa2pack b.fa2pack").says("must be one"));
  const Result both = call("precompile --requests r --head-dim 64 --softcap yes --shard 3/2");
  CHECK(both.status == 2);
  for (const char* part : {"--head-dim", "--softcap", "must be i/n"}) CHECK(both.says(part));
  CHECK(call("precompile --head-dim 64").says("--arch"));
  CHECK(call("precompile --arch sm_80 --exact").says("--exact"));
}

#else
TEST_CASE("cli pack") {
  MESSAGE("skipped: the fa2 command was not built (FA2_BUILD_TOOLS=OFF)");
}
#endif
