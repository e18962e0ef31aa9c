// Whether keys and values have 8 bits, and their factors.
#pragma once

#include "attention/common/params.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

/// Whether keys are rows of latents with factors of their own (latent_rows.cuh).
template <class Config>
constexpr bool are_latent_rows = Config::kv_type == 3;
/// Whether K and V are e4m3.
template <class Config>
constexpr bool are_bytes = Config::kv_type == 1 || are_latent_rows<Config>;
/// Whether they have factors.
template <class Config>
constexpr bool have_factors = Config::kv_type != 0;

/// Whether the keys' factor is part of the scale, because nothing happens to scores before that.
template <class Config>
constexpr bool folds_key_factor =
    have_factors<Config> && !Config::softcap && !Config::alibi && !Config::score_text;

FA2_DEVICE float factor_of(const HeadFactors& factors, int batch, int head) {
  if (factors.data == nullptr) return 1.0f;
  return ptx::ld_global_f32(factors.data + batch * factors.batch_stride + head * factors.head_stride);
}

}  // namespace fa2
