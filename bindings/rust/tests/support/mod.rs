//! Attention in float64, written from its definition, and numbers to try it on.
#![allow(dead_code)]

use fa2::{Bf16, F16};

/// A 16-bit float that tests compute with.
pub trait Half: fa2::Element + Default {
    fn round(value: f64) -> Self;
    fn widen(self) -> f64;
    /// relative distance of neighbours
    const STEP: f64;
}

impl Half for F16 {
    fn round(value: f64) -> Self {
        F16::from_f32(value as f32)
    }
    fn widen(self) -> f64 {
        f64::from(self.to_f32())
    }
    const STEP: f64 = 1.0 / 1024.0;
}

impl Half for Bf16 {
    fn round(value: f64) -> Self {
        Bf16::from_f32(value as f32)
    }
    fn widen(self) -> f64 {
        f64::from(self.to_f32())
    }
    const STEP: f64 = 1.0 / 128.0;
}

/// Returns numbers in [-1, 1) that depend on the seed alone.
pub fn numbers<T: Half>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| T::round(next())).collect()
}

/// The sizes of a batched problem.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub batch: usize,
    pub seqlen_q: usize,
    pub seqlen_k: usize,
    pub heads_q: usize,
    pub heads_kv: usize,
    pub dim: usize,
}

impl Sizes {
    pub fn q(&self) -> [usize; 4] {
        [self.batch, self.seqlen_q, self.heads_q, self.dim]
    }
    pub fn k(&self) -> [usize; 4] {
        [self.batch, self.seqlen_k, self.heads_kv, self.dim]
    }
    pub fn lse(&self) -> [usize; 3] {
        [self.batch, self.heads_q, self.seqlen_q]
    }
}

pub fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Returns O (batch, seqlen_q, heads_q, dim) and LSE (batch, heads_q, seqlen_q) of contiguous tensors. `score` maps head,
/// query, key and scaled product to a score; -infinity hides the key.
pub fn attention<T: Half>(
    s: Sizes,
    q: &[T],
    k: &[T],
    v: &[T],
    score: impl Fn(usize, usize, usize, f64) -> f64,
) -> (Vec<f64>, Vec<f64>) {
    let (mut out, mut lse) = (vec![0.0; count(&s.q())], vec![f64::INFINITY; count(&s.lse())]);
    for b in 0..s.batch {
        for h in 0..s.heads_q {
            let head_kv = h / (s.heads_q / s.heads_kv);
            for i in 0..s.seqlen_q {
                let at_q = ((b * s.seqlen_q + i) * s.heads_q + h) * s.dim;
                let at_k = |j: usize| ((b * s.seqlen_k + j) * s.heads_kv + head_kv) * s.dim;
                let scores: Vec<f64> = (0..s.seqlen_k)
                    .map(|j| {
                        let product: f64 = (0..s.dim).map(|c| q[at_q + c].widen() * k[at_k(j) + c].widen()).sum();
                        score(h, i, j, product / (s.dim as f64).sqrt())
                    })
                    .collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                if most == f64::NEG_INFINITY {
                    continue;
                }
                let sum: f64 = scores.iter().map(|x| (x - most).exp()).sum();
                lse[(b * s.heads_q + h) * s.seqlen_q + i] = most + sum.ln();
                for (j, x) in scores.iter().enumerate() {
                    let p = (x - most).exp() / sum;
                    for c in 0..s.dim {
                        out[at_q + c] += p * v[at_k(j) + c].widen();
                    }
                }
            }
        }
    }
    (out, lse)
}

pub fn plain(_: usize, _: usize, _: usize, x: f64) -> f64 {
    x
}

/// Returns the score under FlashAttention's causal mask.
pub fn causal(s: Sizes) -> impl Fn(usize, usize, usize, f64) -> f64 {
    move |_, i, j, x| if j + s.seqlen_q <= i + s.seqlen_k { x } else { f64::NEG_INFINITY }
}

/// Checks every value. Probabilities are rounded to the element type too, so the error is a few of its steps.
pub fn assert_close<T: Half>(ours: &[T], expected: &[f64]) {
    assert_eq!(ours.len(), expected.len());
    for (i, (&ours, &expected)) in ours.iter().zip(expected).enumerate() {
        let error = (ours.widen() - expected).abs();
        assert!(error <= 2.0 * T::STEP * (0.25 + expected.abs()), "value {i}: {ours:?}, must be {expected}");
    }
}

pub fn assert_close_f32(ours: &[f32], expected: &[f64]) {
    for (i, (&ours, &expected)) in ours.iter().zip(expected).enumerate() {
        let same = f64::from(ours) == expected;
        assert!(same || (f64::from(ours) - expected).abs() < 1e-4, "value {i}: {ours}, must be {expected}");
    }
}
