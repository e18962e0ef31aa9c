// Every kernel that the heuristic picks for common head dims compiles for every GPU family without spills;
// with variants for two families.
#include <autotune/config_choice.h>
#include <autotune/heuristic.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <generator/kernel_source.h>
#include <runtime/compiler.h>
#include <runtime/parallel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../support/device_under_test.h"
#include "../support/pairwise.h"
#include "compiled_kernels.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr const char* kArchs[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};

/// Returns kernels for every GPU and head dim: short sequences with one mask and long ones with the other.
/// The masks swap from one to the next.
std::vector<KernelSource> heuristic_kernels() {
  Kernels kernels;
  bool is_causal = true;
  for (const char* name : kArchs) {
    for (const int head_dim : {40, 64, 96, 128, 192, 200, 256}) {
      kernels.add(square(head_dim, kMasks[is_causal], 4096), *find_arch(name));
      kernels.add(square(head_dim, kMasks[!is_causal], 64), *find_arch(name));
      is_causal = !is_causal;
    }
  }
  return std::move(kernels).list();
}

/// Returns kernels with each variant alone and with all of them; largest logits also of capped and of biased
/// scores. Masks and lengths change from one to the next.
std::vector<KernelSource> variant_kernels() {
  Kernels kernels;
  int i = 0;
  for (const char* name : {"sm_80", "sm_90a"}) {
    for (const int head_dim : {64, 128, 256}) {
      for (const int variants : {1, 2, 4, 8, 15, 16, 18, 20}) {
        PlannedProblem p = square(head_dim, i % 2 == 0 ? MaskKind::causal_bottom_right : MaskKind::none,
                                  i % 3 == 0 ? 1024 : 8192);
        // Under a causal mask this one spills 8 bytes on Hopper, so that the heuristic's next configuration runs.
        if (variants == 15 && head_dim == 256) p.mask = MaskKind::none;
        if (variants & 1) p.window_left = p.window_right = 4096;
        p.softcap = variants & 2, p.alibi = variants & 4, p.sinks = variants & 8,
        p.max_logits = variants & 16;
        p.lse_base = i % 4 == 0 ? LseBase::two : LseBase::natural;
        kernels.add(p, *find_arch(name));
        ++i;
      }
    }
  }
  return std::move(kernels).list();
}

/// Returns a kernel for each pass of the backward. Masks, variants and GPUs change from one to the next.
std::vector<KernelSource> backward_kernels() {
  Kernels kernels;
  int i = 0;
  for (const char* name : {"sm_80", "sm_89", "sm_90a"}) {
    const Arch& arch = *find_arch(name);
    for (const int head_dim : {64, 128, 256}) {
      for (const KernelPass pass : kBackwardPasses) {
        PlannedProblem p =
            square(head_dim, i % 2 == 0 ? MaskKind::causal_bottom_right : MaskKind::none, 4096);
        if (i % 3 == 0) p.window_left = 1024;
        p.softcap = i % 4 == 1, p.alibi = i % 5 == 2, p.varlen = i % 7 < 3;
        p.sinks = pass == KernelPass::d_sinks;
        const auto choices = heuristic_choices(p, arch, pass);
        if (!choices.empty()) kernels.add(p, choices.front().config, arch);
        ++i;
      }
    }
  }
  return std::move(kernels).list();
}

/// Returns the fused backward's first choice on wgmma, with each mask and with variants, batched and packed.
std::vector<KernelSource> summing_kernels() {
  Kernels kernels;
  const Arch& hopper = *find_arch("sm_90a");
  const auto add = [&](const PlannedProblem& p) {
    const KernelConfig config = heuristic_choices(p, hopper, KernelPass::dq_dk_dv).at(0).config;
    CHECK(config.kernel == KernelId::backward_sm90);
    kernels.add(p, config, hopper);
  };
  const auto add_both = [&](PlannedProblem p) {
    add(p);
    p.varlen = true;
    add(p);
  };
  int i = 0;
  for (const int head_dim : {64, 80, 96, 128, 256}) {
    for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
      PlannedProblem p = square(head_dim, mask, 4096);
      p.dtype = i++ % 2 == 0 ? DType::f16 : DType::bf16;
      add_both(p);
    }
  }
  for (const int head_dim : {64, 128}) {
    for (const int variants : {1, 2, 4, 7}) {
      PlannedProblem p = square(head_dim, i % 2 == 0 ? MaskKind::causal_bottom_right : MaskKind::none, 4096);
      p.dtype = i++ % 3 == 0 ? DType::f16 : DType::bf16;
      if (variants & 1) p.window_left = p.window_right = 1024;
      p.softcap = variants & 2, p.alibi = variants & 4;
      add_both(p);
    }
  }
  return std::move(kernels).list();
}

/// Returns the fused backward's first choice on wgmma up to d 64, batched and packed, with dQ added in bulk.
std::vector<KernelSource> bulk_kernels() {
  Kernels kernels;
  const Arch& hopper = *find_arch("sm_90a");
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left}) {
    for (const bool varlen : {false, true}) {
      PlannedProblem p = square(64, mask, 4096);
      p.varlen = varlen;
      KernelConfig config = heuristic_choices(p, hopper, KernelPass::dq_dk_dv).at(0).config;
      config.bulk_sums = 1;
      kernels.add(p, config, hopper);
    }
  }
  return std::move(kernels).list();
}

/// Returns the kernels that convert dQ accumulators of either fused backward. They do not depend on mask and
/// variants.
std::vector<KernelSource> conversion_kernels() {
  Kernels kernels;
  for (const char* name : {"sm_80", "sm_90a", "sm_120"}) {
    const Arch& arch = *find_arch(name);
    for (const int head_dim : {40, 64, 80, 96, 128, 192, 256}) {
      PlannedProblem p = square(head_dim, MaskKind::none, 4096);
      p.varlen = arch.compute_capability == 90 && head_dim % 128 == 0;
      const auto choices = heuristic_choices(p, arch, KernelPass::dq_dk_dv);
      kernels.add(p, conversion_of(choices.at(0).config).config, arch);
    }
  }
  return std::move(kernels).list();
}

/// Returns the fused backward's first choice on mma.sync, in which any two choices of the rest meet. For
/// Blackwell, whose kernels take a few more registers, also the widest tiles with the variants that take the
/// most registers.
std::vector<KernelSource> fused_mma_kernels() {
  constexpr int kHeadDims[] = {40, 64, 80, 96, 128, 192, 256};
  struct Variants {
    bool window = false, softcap = false, alibi = false;
  };
  constexpr Variants kVariants[] = {
      {}, {.window = true}, {.softcap = true}, {.alibi = true}, {.window = true, .alibi = true}};
  Kernels kernels;
  const auto add = [&](PlannedProblem p, const Variants& variants, const Arch& arch) {
    if (variants.window) p.window_left = 1024;
    p.softcap = variants.softcap, p.alibi = variants.alibi;
    const KernelConfig config = heuristic_choices(p, arch, KernelPass::dq_dk_dv).at(0).config;
    CHECK(config.kernel == KernelId::backward_sm80);
    kernels.add(p, config, arch);
  };
  for (const Combination& c :
       pairwise({std::size(kArchs), std::size(kHeadDims), std::size(kVariants), 2, 2, 2})) {
    const Arch& arch = *find_arch(kArchs[c[0]]);
    PlannedProblem p = square(kHeadDims[c[1]], kMasks[c[3]], 4096);
    p.dtype = c[4] == 0 ? DType::f16 : DType::bf16;
    const bool is_element =
        c[5] == 1 || arch.compute_capability == 90;  // with aligned rows sm_90a would choose wgmma
    p.row_alignment = is_element ? RowAlignment::element : RowAlignment::bytes16;
    add(p, kVariants[c[2]], arch);
  }
  for (const int head_dim : {80, 96, 128})
    add(square(head_dim, MaskKind::none, 4096), kVariants[4], *find_arch("sm_100"));
  return std::move(kernels).list();
}

/// Returns a kernel of each pass with dropout, for each of these GPUs and head dims, in which any two choices
/// of the rest meet; and the mask kernel. Blackwell's kernels take the most registers of all on mma.sync.
std::vector<KernelSource> dropout_kernels() {
  using enum KernelPass;
  constexpr const char* kGpus[] = {"sm_90a", "sm_100"};
  constexpr int kHeadDims[] = {64, 96, 128, 256};
  constexpr KernelPass kPasses[] = {forward, dq, dk_dv, dk, dv, dq_dk_dv, ordered_dq_dk_dv};
  Kernels kernels;
  for (const Combination& c :
       pairwise({std::size(kGpus) * std::size(kHeadDims), std::size(kPasses), 3, 2, 2})) {
    const Arch& arch = *find_arch(kGpus[c[0] / std::size(kHeadDims)]);
    PlannedProblem p =
        square(kHeadDims[c[0] % std::size(kHeadDims)], kMasks[c[2] > 0], c[3] == 0 ? 1024 : 8192);
    if (c[2] == 2) p.window_left = 4096;
    p.dtype = c[4] == 0 ? DType::f16 : DType::bf16;
    p.dropout = true;
    const auto choices = heuristic_choices(p, arch, kPasses[c[1]]);
    if (!choices.empty()) kernels.add(p, choices.front().config, arch);
  }
  for (const char* name : kGpus) {
    PlannedProblem any = square(64, MaskKind::none, 0);
    any.dropout = true;
    kernels.add(any, default_config(KernelId::dropout_mask), *find_arch(name));
  }
  return std::move(kernels).list();
}

/// Returns a kernel of each pass with chunks, for each of these GPUs and head dims, in which any two choices of the rest meet.
std::vector<KernelSource> chunk_kernels() {
  using enum KernelPass;
  constexpr const char* kGpus[] = {"sm_80", "sm_90a", "sm_100"};
  constexpr int kHeadDims[] = {64, 128, 256};
  constexpr KernelPass kPasses[] = {forward, dq, dk_dv, dq_dk_dv, ordered_dq_dk_dv};
  Kernels kernels;
  for (const Combination& c :
       pairwise({std::size(kGpus) * std::size(kHeadDims), std::size(kPasses), 2, 2, 2})) {
    const Arch& arch = *find_arch(kGpus[c[0] / std::size(kHeadDims)]);
    PlannedProblem p = square(kHeadDims[c[0] % std::size(kHeadDims)], kMasks[c[2]], 32768);
    p.attention_chunk = 8192;
    p.varlen = c[3] == 1;
    if (c[4] == 1) p.window_left = 1024;
    const auto choices = heuristic_choices(p, arch, kPasses[c[1]]);
    if (!choices.empty()) kernels.add(p, choices.front().config, arch);
  }
  return std::move(kernels).list();
}

/// Returns kernels with lengths on the device, most with paged KV, for decode, for prefill and batch-invariant, with plain and other
/// scores, in which any two choices meet.
std::vector<KernelSource> paged_kernels() {
  constexpr std::pair<const char*, int> kPages[] = {{"sm_80", 1},   {"sm_90a", 1},  {"sm_90a", 7},
                                                    {"sm_90a", 16}, {"sm_90a", 64}, {"sm_120", 48},
                                                    {"sm_90a", 0}};
  constexpr int kHeadDims[] = {64, 128, 256};
  enum Use { decode, prompt, invariant };
  enum Scores { plain, windowed, alibi, dropout, chunked };
  Kernels kernels;
  for (const Combination& c : pairwise({std::size(kPages), std::size(kHeadDims), 3, 5})) {
    const auto& [name, page_size] = kPages[c[0]];
    PlannedProblem p = square(kHeadDims[c[1]], kMasks[c[2] != decode], c[2] == decode ? 1 : 2048);
    p.varlen = true;
    p.batch_invariant = c[2] == invariant;
    p.page_size = page_size;
    // With fixed split boundaries and a window or chunks, kernels that gather pages at head dim 256 spill and are replaced.
    if (c[3] == windowed && !p.batch_invariant) p.window_left = 500;
    if (c[3] == chunked && !p.batch_invariant) p.attention_chunk = 500;
    p.alibi = c[3] == alibi;
    p.dropout = c[3] == dropout;
    kernels.add(p, *find_arch(name));
  }
  return std::move(kernels).list();
}

/// Returns the variants of the append or the merge kernel: aligned and misaligned rows, and for append also
/// head_dim_v != head_dim, caches of 8 bits and latents of 656 bytes.
std::vector<KernelSource> kernels_of_rows(KernelId kernel) {
  Kernels kernels;
  for (const char* name : {"sm_80", "sm_89", "sm_90a", "sm_120"}) {
    for (const int head_dim : {40, 128, 256}) {
      PlannedProblem p = square(head_dim, MaskKind::none, 0);
      p.row_alignment = head_dim == 128 ? RowAlignment::element : RowAlignment::bytes16;
      p.dtype = head_dim == 40 ? DType::bf16 : DType::f16;
      p.head_dim_v = kernel == KernelId::append && head_dim == 256 ? 64 : head_dim;
      kernels.add(p, default_config(kernel), *find_arch(name));
      if (kernel != KernelId::append || head_dim == 40) continue;
      p.kv_type = KvType::e4m3;
      kernels.add(p, default_config(kernel), *find_arch(name));
      p.kv_type = KvType::ds_mla;
      p.dtype = DType::bf16, p.head_dim = 64, p.head_dim_v = 512;
      kernels.add(p, default_config(kernel), *find_arch(name));
    }
  }
  return std::move(kernels).list();
}

}  // namespace

TEST_CASE("the heuristic's kernels compile for every GPU family without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(heuristic_kernels());
}

TEST_CASE("the heuristic's kernels with variants compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(variant_kernels());
}

TEST_CASE("the heuristic's kernels of the backward compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(backward_kernels());
}

TEST_CASE("the heuristic's fused backward kernels compile without spills and without serialised wgmmas") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(summing_kernels());
}

TEST_CASE("the fused backward's kernels that add dQ in bulk compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(bulk_kernels());
}

TEST_CASE("the heuristic's kernels that convert dQ accumulators compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(conversion_kernels());
}

TEST_CASE("the heuristic's fused backward kernels on mma.sync compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(fused_mma_kernels());
}

TEST_CASE("the merge kernels compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(kernels_of_rows(KernelId::merge));
}

TEST_CASE("the append kernels compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(kernels_of_rows(KernelId::append));
}

TEST_CASE("the heuristic's kernels with paged KV compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(paged_kernels());
}

TEST_CASE("the heuristic's kernels with chunks compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(chunk_kernels());
}

TEST_CASE("the heuristic's kernels with dropout compile without spills") {
  if (fa2::test::nvrtc_missing()) return;
  check_that_they_compile_without_spills(dropout_kernels());
}
