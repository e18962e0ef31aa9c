// Which configs can be rendered: every rule, its limits, and the enumeration.
#include <doctest/doctest.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

using namespace fa2;

namespace {

AttentionTraits traits(int head_dim, int head_dim_v) {
  return traits_of({{.head_dim = head_dim, .head_dim_v = head_dim_v}, {}});
}

/// Returns the rule that `config` breaks; empty if it is valid.
std::string broken(std::string_view config, int head_dim = 8, std::string_view arch = "sm_80") {
  return why_rejected({traits(head_dim, head_dim), parse_config(config), *find_arch(arch)}).value_or("");
}

int shared(const std::string& config, int head_dim, int head_dim_v) {
  return shared_bytes(traits(head_dim, head_dim_v), parse_config(config));
}

}  // namespace

TEST_CASE("config space: the rules of shape, and their limits") {
  CHECK(broken("warps=0") == "warps = 0, must be 1..16");
  CHECK(broken("warps=17,tile_m=272") == "warps = 17, must be 1..16");
  CHECK(broken("warps=1,tile_m=16") == "");
  CHECK(broken("warps=16,tile_m=256") == "");
  CHECK(broken("tile_m=96").find("tile_m = 96 is no multiple of 16 * warps = 64") == 0);
  CHECK(broken("tile_m=0") == "tile_m = 0, must be 16..1024");
  CHECK(broken("tile_m=-64") == "tile_m = -64, must be 16..1024");
  CHECK(broken("tile_n=24") == "tile_n = 24 is no multiple of 16");
  CHECK(broken("tile_n=0") == "tile_n = 0, must be 16..1024");
  CHECK(broken("tile_n=-16") == "tile_n = -16, must be 16..1024");
  CHECK(broken("tile_n=16") == "");
  CHECK(broken("stages=0") == "stages = 0, must be 1..4");
  CHECK(broken("stages=5") == "stages = 5, must be 1..4");
  CHECK(broken("stages=4") == "");
  CHECK(broken("q_in_registers=2") == "q_in_registers = 2, must be 0..1");
  CHECK(broken("q_in_registers=-1") == "q_in_registers = -1, must be 0..1");
  CHECK(broken("ctas_per_sm=0") == "ctas_per_sm = 0, must be 1..8");
  CHECK(broken("ctas_per_sm=9") == "ctas_per_sm = 9, must be 1..8");
  CHECK(broken("ctas_per_sm=8,tile_m=16,warps=1") == "");
}

TEST_CASE("config space: the rules of resources differ by arch") {
  const char* large = "tile_m=64,tile_n=64,stages=2";
  CHECK(broken(large, 256, "sm_80") == "");
  CHECK(broken(large, 256, "sm_86") == "needs 163840 bytes of shared memory, sm_86 has 101376 per block");
  const char* two = "tile_m=64,tile_n=64,stages=2,ctas_per_sm=2";  // 16384 bytes of Q, 65536 of K and V
  CHECK(broken(two, 128, "sm_80") == "");
  CHECK(broken(two, 128, "sm_120") ==
        "2 blocks of 81920 bytes of shared memory do not fit the 102400 bytes of one SM of sm_120");
  const char* wide = "tile_m=256,warps=16,tile_n=16,stages=1,ctas_per_sm=4";
  CHECK(broken(wide, 8, "sm_86")
            .find("4 blocks of 512 threads do not fit the 1536 threads of one SM of sm_86") == 0);
  CHECK(broken(wide, 8, "sm_80").find(" registers a thread, 32 are available with 4 blocks of 512 threads") !=
        std::string::npos);
}

TEST_CASE(
    "config space: shared memory may be used to its last byte, after the driver's share of each block") {
  // K and V take 163840 of the 166912 bytes, Q takes 64 per row.
  CHECK(broken("tile_m=48,tile_n=320,warps=3,stages=4", 32) == "");
  CHECK(broken("tile_m=64,tile_n=320,warps=4,stages=4", 32) ==
        "needs 167936 bytes of shared memory, sm_80 has 166912 per block");
  // 2 * (82944 + 1024) is all that an SM has.
  CHECK(broken("tile_m=16,tile_n=320,warps=1,stages=2,ctas_per_sm=2", 32) == "");
  CHECK(broken("tile_m=32,tile_n=320,warps=2,stages=2,ctas_per_sm=2", 32) ==
        "2 blocks of 83968 bytes of shared memory do not fit the 167936 bytes of one SM of sm_80");
}

TEST_CASE("config space: no thread has more than 255 registers, however few threads there are") {
  CHECK(broken("tile_m=128,tile_n=128,stages=1", 128).find("255 are available") != std::string::npos);
  CHECK(broken("tile_m=128,tile_n=128,stages=1,warps=8", 128) == "");  // half the rows per warp
}

TEST_CASE("config space: tiles too large for any GPU are rejected without overflow") {
  CHECK(broken("tile_m=1073741824,warps=1", 128) == "tile_m = 1073741824, must be 16..1024");
  CHECK(broken("tile_m=256,tile_n=1073741824", 128) == "tile_n = 1073741824, must be 16..1024");
  for (const char* number : {"=2147483647", "=-2147483648"}) {
    for (const KernelKind* kind : kernel_kinds()) {
      const std::string kernel = "kernel=" + std::string(kind->name());
      const KernelConfig fields;
      KernelConfig::visit(fields, [&](std::string_view field, int) {
        CAPTURE(field);
        CHECK(broken(kernel + "," + std::string(field) + number, 64, "sm_90a").find(", must be ") !=
              std::string::npos);
      });
    }
  }
}

TEST_CASE("config space: shared memory of hand-computed cases") {
  // Q: 128 * 128 * 2 = 32768. K and V: 2 * 64 * (128 + 128) * 2 = 65536.
  CHECK(shared("tile_m=128,tile_n=64,stages=2", 128, 128) == 98304);
  CHECK(shared("tile_m=128,tile_n=64,stages=2,q_in_registers=1", 128, 128) == 65536);
  // Head dims are padded to multiples of 16: 40 to 48, 72 to 80. Q: 6144, K and V: 8192, O: 10240.
  CHECK(shared("tile_m=64,tile_n=32,stages=1", 40, 72) == 14336);
  CHECK(shared("tile_m=64,tile_n=32,stages=1,q_in_registers=1", 40, 72) == 10240);
  // Q is larger than all the rest: 32768.
  CHECK(shared("tile_m=128,tile_n=16,stages=1,q_in_registers=1", 128, 8) == 32768);
  // O takes more than Q (4096) with K and V (8704): 128 * 256 * 2.
  CHECK(shared("tile_m=128,tile_n=16,stages=1", 8, 256) == 65536);
}

TEST_CASE("config space: valid and rejected configs are the whole product, each once and with its reason") {
  for (const char* name : {"sm_80", "sm_86", "sm_90a", "sm_120"}) {
    for (const AttentionTraits& t : {traits(8, 8), traits(64, 64), traits(192, 128), traits(256, 256)}) {
      CAPTURE(to_string(t));
      CAPTURE(std::string(name));
      const Arch& arch = *find_arch(name);
      const ConfigSpace space = config_space(t, arch);
      std::set<std::string> seen;
      std::map<std::string, std::set<int>> values;
      std::size_t of_80 = 0, of_90 = 0;
      const auto note = [&](const KernelConfig& config) {
        CHECK_MESSAGE(seen.insert(to_string(config)).second, to_string(config), " twice");
        if (config.kernel == KernelId::forward_sm80)
          KernelConfig::visit(config, [&](const char* field, int value) { values[field].insert(value); });
        of_80 += config.kernel == KernelId::forward_sm80;
        of_90 += config.kernel == KernelId::forward_sm90;
      };
      for (const KernelConfig& config : space.valid) {
        note(config);
        CHECK_FALSE(why_rejected({t, config, arch}).has_value());
      }
      for (const Rejection& rejection : space.rejected) {
        note(rejection.config);
        CHECK_FALSE(rejection.reason.empty());
        CHECK(why_rejected({t, rejection.config, arch}) == rejection.reason);
      }
      std::size_t product = 1;
      for (const auto& [field, of_field] : values) product *= of_field.size();
      CHECK(of_80 == product);
      CHECK((of_90 > 0) == (arch.compute_capability == 90));
      CHECK(seen.size() > of_80 + of_90);
      CHECK_FALSE(space.valid.empty());
      CHECK_FALSE(space.rejected.empty());
    }
  }
}

TEST_CASE("config space: the rows of heads that share tiles can be numbered") {
  PlannedProblem p({.head_dim = 64, .heads_q = 12, .heads_kv = 3}, {});
  p.seqlen_q = p.seqlen_k = (1 << 23) + 1;
  const KernelConfig config = parse_config("kernel=forward_sm90,tile_m=64,warps=4,q_buffers=1,ctas_per_sm=2");
  CHECK(why_rejected(p, config, *find_arch("sm_90a")).value_or("") == "");  // so many queries share no tiles
  p.batch_invariant = true;
  CHECK(why_rejected(p, config, *find_arch("sm_90a")) ==
        "4 heads share tiles, which hold at most 2^23 queries, not 8388609");
  p.seqlen_q = 1 << 23;
  CHECK(why_rejected(p, config, *find_arch("sm_90a")).value_or("") == "");
}

TEST_CASE("config space: a problem's rules take any number in any field") {
  const PlannedProblem problem(
      {.head_dim = 64, .heads_q = 8, .heads_kv = 2, .seqlen_q = 512, .seqlen_k = 512}, {});
  for (const KernelKind* kind : kernel_kinds()) {
    KernelConfig config = default_config(kind->id);
    KernelConfig::visit(config, [&](const char* name, std::int32_t& value) {
      const std::int32_t kept = value;
      for (const std::int32_t wild : {0, -1, INT32_MIN, INT32_MAX}) {
        value = wild;
        const auto rules = why_rejected(problem, config, *find_arch("sm_90a"));
        CAPTURE(name);
        CAPTURE(wild);
        const Tunable* tunable = kind->tunable(name);
        const bool fits = tunable != nullptr && wild >= tunable->least && wild <= tunable->most;
        CHECK((fits || wild == kept || rules.has_value()));
      }
      value = kept;
    });
  }
}

TEST_CASE("config space: keys are split if their blocks can be numbered") {
  PlannedProblem p;
  p.head_dim = p.head_dim_v = 128;
  p.heads_q = p.heads_kv = 64;
  const KernelConfig config = parse_config(
      "kernel=forward_sm90,tile_m=64,tile_n=128,warps=4,stages=3,ctas_per_sm=2,q_buffers=1,schedule=3");
  const auto why = [&](std::int64_t seqlen_q, std::int64_t seqlen_k) {
    p.seqlen_q = seqlen_q, p.seqlen_k = seqlen_k;
    return why_rejected(p, config, *find_arch("sm_90a")).value_or("");
  };
  CHECK(why(1, 1 << 30) == "");
  CHECK(why(1, 0) == "");
  CHECK(why(1 << 18, (1 << 20) - 128) == "");  // 2^18 tiles of 2^13 - 1 blocks
  CHECK(why(1 << 18, 1 << 20) == "split KV numbers at most 2^31 KV blocks, not 262144 tiles of 8192");
  p.batch = 1 << 20;
  CHECK(why(1, 1 << 20) != "");
}

TEST_CASE("config space: forward_sm90 runs on Hopper, and its rules") {
  const std::string valid = "kernel=forward_sm90,tile_m=128,warps=8,tile_n=128,stages=4,q_buffers=1";
  const auto with = [&](const char* more, int head_dim = 128) {
    return broken(valid + more, head_dim, "sm_90a");
  };
  CHECK(broken(valid, 128, "sm_90a") == "");
  CHECK(broken(valid, 128, "interpreter") == "");
  CHECK(broken(valid, 128, "sm_100") == "forward_sm90 does not run on sm_100");
  CHECK(broken("kernel=forward_sm90,tile_m=96,warps=6,q_buffers=1", 64, "sm_90a") ==
        "warps = 6 are no whole warpgroups of 4");
  CHECK(broken("kernel=forward_sm90,tile_m=256,warps=8,q_buffers=1", 64, "sm_90a") ==
        "tile_m = 256, must be 16 * warps = 128");
  CHECK(broken("kernel=forward_sm90,tile_m=128,warps=8,q_buffers=0", 64, "sm_90a") ==
        "q_buffers = 0, must be 1..2");
  CHECK(broken("q_buffers=1", 64, "sm_90a") == "q_buffers = 1, must be 0 for forward_sm80");
  CHECK(with("") == "");
  CHECK(broken("kernel=forward_sm90,tile_m=64,warps=4,ctas_per_sm=2,overlap=1,pingpong=1", 64, "sm_90a") ==
        "pingpong needs two warpgroups: warps = 8 or 12");
  CHECK(with(",overlap=1,pingpong=1") == "");
  CHECK(with(",pingpong=1") == "pingpong = 1 needs overlap = 1");
  CHECK(with(",overlap=2") == "overlap = 2, must be 0..1");
  CHECK(broken("kernel=forward_sm90,tile_m=64,warps=4,ctas_per_sm=2,skip_masked=1", 64, "sm_90a") ==
        "skip_masked = 1 without a mask, window or chunk to skip by");
  CHECK(broken("kernel=forward_sm90,tile_m=64,warps=4,q_buffers=1,stages=9", 64, "sm_90a") ==
        "stages = 9, must be 2..8");
  CHECK(with("", 256).find("shared memory") != std::string::npos);
  // 192 x 96 at head dim 128 spills, 192 x 80 does not.
  const std::string three = "kernel=forward_sm90,tile_m=192,warps=12,stages=4,q_buffers=1,overlap=1,tile_n=";
  CHECK(broken(three + "96", 128, "sm_90a")
            .find("needs about 164 registers a thread, a consumer warp has 160") == 0);
  CHECK(broken(three + "80", 128, "sm_90a") == "");
  // 2 x 256 threads start with 128 registers each, which are too few for 256 columns of output.
  CHECK(broken("kernel=forward_sm90,tile_m=64,warps=4,stages=2,q_buffers=1,tile_n=32,ctas_per_sm=2", 256,
               "sm_90a") == "a wgmma needs 158 registers, the block is launched with 128 a thread");
  // Without overlap, the probabilities take the registers of the scores.
  CHECK(broken("kernel=forward_sm90,tile_m=192,warps=12,stages=3,q_buffers=1,tile_n=96", 128, "sm_90a") ==
        "");
  AttentionTraits reversed = traits(64, 64);
  reversed.row_alignment = RowAlignment::bytes16_any_order;
  CHECK(why_rejected({reversed, parse_config(valid), *find_arch("sm_90a")})
            .value_or("")
            .find("TMA loads the rows") != std::string::npos);
}

TEST_CASE("config space: shared memory of forward_sm90 starts every tile at 1024 bytes") {
  const auto bytes = [](const char* config, int d, int dv) {
    return shared(std::string("kernel=forward_sm90,tile_m=128,warps=8,") + config, d, dv);
  };
  // Two tiles of 64 queries of 256 bytes, 4 stages of 128 keys, 2 * (4 + 1 + 2) mbarriers and two tile
  // numbers.
  CHECK(bytes("tile_n=128,stages=4,q_buffers=1", 128, 128) == 32768 + 4 * 32768 + 16 * 9);
  CHECK(bytes("tile_n=128,stages=4,q_buffers=2", 128, 128) == 65536 + 4 * 32768 + 16 * 10);
  // 72 columns take 80. 17920 bytes of keys are rounded up to 18432; 10240 of queries need no rounding.
  CHECK(bytes("tile_n=112,stages=2,q_buffers=1", 72, 40) == 2 * 10240 + 2 * 18432 + 16 * 7);
}

TEST_CASE("config space: the order is fixed") {
  const Arch& arch = *find_arch("sm_80");
  CHECK(config_space(traits(64, 64), arch).valid == config_space(traits(64, 64), arch).valid);
}

TEST_CASE("config space: every broken rule is listed at once") {
  CHECK(broken("kernel=forward_sm90,warps=6,stages=1,q_in_registers=1,pingpong=1", 64, "sm_100") ==
        "stages = 1, must be 2..8; q_in_registers = 1, must be 0 for forward_sm90; forward_sm90 does not "
        "run on sm_100; warps = 6 are no whole warpgroups of 4; tile_m = 128, must be 16 * warps = "
        "96; "
        "pingpong = 1 needs overlap = 1");
  // Including resources, if they can be computed.
  const std::string large = broken("tile_m=128,tile_n=24,warps=4,stages=4,ctas_per_sm=8", 256);
  for (const char* part : {"tile_n = 24", "bytes of shared memory", "registers a thread"}) {
    CAPTURE(large);
    CHECK(large.find(part) != std::string::npos);
  }
}

TEST_CASE("config space: each kernel's default computes every problem that the kernel computes") {
  for (const Arch& arch : known_archs()) {
    for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
      for (int head_dim_v = 8; head_dim_v <= 256; head_dim_v += 8) {
        for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
          for (const RowAlignment alignment : {RowAlignment::bytes16, RowAlignment::element}) {
            const AttentionTraits t =
                traits_of({{.head_dim = head_dim, .head_dim_v = head_dim_v, .mask = mask}, {alignment}});
            REQUIRE(why_rejected({t, default_config(KernelId::forward_sm80), arch}).value_or("") == "");
            if (arch.compute_capability != 90 || alignment != RowAlignment::bytes16) continue;
            REQUIRE(why_rejected({t, default_config(KernelId::forward_sm90), arch}).value_or("") == "");
          }
        }
      }
    }
  }
  CHECK(default_config(KernelId::forward_sm80) == KernelConfig{});
}
