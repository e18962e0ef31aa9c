// AttentionProblem as a value, the words of enumerations, InvalidRequest's text, contiguous arguments.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <generator/kernel_spec.h>

#include <limits>
#include <set>

using namespace fa2;

namespace {

AttentionProblem example() {
  AttentionProblem p;
  p.head_dim = 128;
  p.mask = MaskKind::causal_bottom_right;
  p.batch = 2;
  p.heads_q = 32;
  p.heads_kv = 8;
  p.seqlen_q = p.seqlen_k = 4096;
  return p;
}

}  // namespace

TEST_CASE("enumerations have the documented words, and no word for other values") {
  CHECK(to_string(DType::f16) == "f16");
  CHECK(to_string(DType::bf16) == "bf16");
  CHECK(to_string(MaskKind::none) == "none");
  CHECK(to_string(MaskKind::causal_bottom_right) == "causal_bottom_right");
  CHECK(to_string(MaskKind::causal_top_left) == "causal_top_left");
  CHECK(to_string(RowAlignment::bytes16) == "bytes16");
  CHECK(to_string(RowAlignment::element) == "element");
  CHECK(to_string(KernelOrigin::disk_cache) == "disk_cache");
  CHECK(to_string(ConfigOrigin::tuned_other_device) == "tuned_other_device");
  CHECK(to_string(static_cast<DType>(9)) == "invalid");
  CHECK(to_string(static_cast<MaskKind>(3)) == "invalid");
}

TEST_CASE("problem: normalized() fills defaults of 0 and changes nothing else") {
  AttentionProblem p;
  p.head_dim = 64;
  p.heads_q = 12;
  const AttentionProblem full = p.normalized();
  CHECK(full.head_dim_v == 64);
  CHECK(full.heads_kv == 12);
  CHECK(full.normalized() == full);
  CHECK(full != p);
  CHECK(example().normalized().heads_kv == 8);
}

TEST_CASE("problem: the text names head_dim_v only if it differs") {
  AttentionProblem p = example();
  CHECK(to_string(p) == "f16 d128 causal_bottom_right batch 2 heads 32/8 seqlen 4096x4096");
  p.head_dim_v = 128;
  CHECK(to_string(p) == "f16 d128 causal_bottom_right batch 2 heads 32/8 seqlen 4096x4096");
  p.dtype = DType::bf16;
  p.head_dim = 192;
  p.mask = MaskKind::none;
  p.heads_kv = 0;
  p.seqlen_k = 7;
  CHECK(to_string(p) == "bf16 d192 v128 none batch 2 heads 32/32 seqlen 4096x7");
  CHECK(to_string(PlannedProblem(p, {})) == to_string(p));
  CHECK(to_string(PlannedProblem(p, {RowAlignment::element})) == to_string(p) + " element");
}

TEST_CASE("problem: equal values hash alike, every field counts") {
  std::set<std::size_t> hashes{hash_value(example())};
  CHECK(hash_value(example()) == *hashes.begin());
  const auto vary = [&](auto change) {
    AttentionProblem p = example();
    change(p);
    CHECK(p != example());
    hashes.insert(hash_value(p));
  };
  vary([](AttentionProblem& p) { p.dtype = DType::bf16; });
  vary([](AttentionProblem& p) { p.mask = MaskKind::causal_top_left; });
  vary([](AttentionProblem& p) { p.head_dim = 64; });
  vary([](AttentionProblem& p) { p.head_dim_v = 64; });
  vary([](AttentionProblem& p) { p.batch = 3; });
  vary([](AttentionProblem& p) { p.heads_q = 16; });
  vary([](AttentionProblem& p) { p.heads_kv = 4; });
  vary([](AttentionProblem& p) { p.seqlen_q = 4095; });
  vary([](AttentionProblem& p) { p.seqlen_k = 4095; });
  CHECK(hashes.size() == 10);
}

TEST_CASE("problem: hashes of similar shapes fall into different buckets") {
  std::set<std::size_t> low_bits;
  AttentionProblem p = example();
  for (p.seqlen_q = 0; p.seqlen_q < 4096; ++p.seqlen_q) low_bits.insert(hash_value(p) % 65536);
  CHECK(low_bits.size() > 3800);  // random values would give about 3970
}

TEST_CASE("InvalidRequest lists every violation on a line of its own") {
  const InvalidRequest error({{"head_dim", "7", "must be even"}, {"q", "null", "must point somewhere"}});
  CHECK(std::string(error.what()) ==
        "invalid request, 2 rules broken:\n  head_dim = 7, must be even\n  q = null, must point somewhere");
  CHECK(error.code() == ErrorCode::invalid_request);
  CHECK(error.violations().size() == 2);
}

TEST_CASE("args: the contiguous layouts") {
  AttentionProblem p = example();
  p.head_dim_v = 64;
  p.seqlen_k = 100;
  int q = 0, k = 0, v = 0, o = 0;
  float lse = 0;
  const AttentionArgs a = bshd_args(p, &q, &k, &v, &o, &lse);
  CHECK(a.q == &q);
  CHECK(a.k == &k);
  CHECK(a.v == &v);
  CHECK(a.out == &o);
  CHECK(a.lse == &lse);
  CHECK_FALSE(a.softmax_scale.has_value());
  CHECK(a.q_strides.batch == 4096 * 32 * 128);
  CHECK(a.q_strides.head == 128);
  CHECK(a.q_strides.row == 32 * 128);
  CHECK(a.k_strides.batch == 100 * 8 * 128);
  CHECK(a.v_strides.row == 8 * 64);
  CHECK(a.out_strides.head == 64);

  const AttentionArgs b = bhsd_args(p, &q, &k, &v, &o);
  CHECK(b.lse == nullptr);
  CHECK(b.q_strides.head == 4096 * 128);
  CHECK(b.q_strides.row == 128);
  CHECK(b.k_strides.batch == 8 * 100 * 128);
  CHECK(b.v_strides.head == 100 * 64);
}

TEST_CASE("args: packed sequences are one entry with the rows of all") {
  AttentionProblem p = example();
  p.varlen = true;
  p.total_q = 10000;
  p.total_k = 300;
  const AttentionArgs a = bshd_args(p, nullptr, nullptr, nullptr, nullptr);
  CHECK(a.q_strides.head == 128);
  CHECK(a.q_strides.row == 32 * 128);
  CHECK(a.k_strides.row == 8 * 128);
  const AttentionArgs b = bhsd_args(p, nullptr, nullptr, nullptr, nullptr);
  CHECK(b.q_strides.head == 10000 * 128);
  CHECK(b.out_strides.head == 10000 * 128);
  CHECK(b.k_strides.head == 300 * 128);
  CHECK(b.v_strides.row == 128);
  p.total_q = 0;  // a batched side next to packed keys
  CHECK(bhsd_args(p, nullptr, nullptr, nullptr, nullptr).q_strides.head == 4096 * 128);
  for (const std::int32_t* table : {a.cu_seqlens_q, a.cu_seqlens_k, a.seqused_q, a.seqused_k})
    CHECK(table == nullptr);
}

TEST_CASE("args: sizes beyond any memory saturate instead of wrapping around") {
  AttentionProblem p = example();
  p.heads_q = p.heads_kv = std::int64_t{1} << 31;
  p.seqlen_q = std::int64_t{1} << 31;
  CHECK(bshd_args(p, nullptr, nullptr, nullptr, nullptr).q_strides.batch ==
        std::numeric_limits<std::int64_t>::max());
}
