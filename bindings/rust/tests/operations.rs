//! Gradients, appending and merging on the interpreter.

mod support;

use fa2::{Append, Attention, Backward, Bf16, Determinism, LseBase, Mask, Merge, RotaryStyle, Tensor, TensorMut, F16};
use support::*;

const SIZES: Sizes = Sizes { batch: 1, seqlen_q: 9, seqlen_k: 21, heads_q: 4, heads_kv: 2, dim: 16 };

/// Returns dQ, dK and dV of `score`, whose derivative by the scaled product is 1 where it is finite.
fn gradients(
    s: Sizes,
    [q, k, v, d_out]: [&[F16]; 4],
    score: impl Fn(usize, usize, usize, f64) -> f64,
) -> [Vec<f64>; 3] {
    let (out, lse) = attention(s, q, k, v, &score);
    let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    let scale = 1.0 / (s.dim as f64).sqrt();
    for (h, i) in (0..s.heads_q).flat_map(|h| (0..s.seqlen_q).map(move |i| (h, i))) {
        let at = (i * s.heads_q + h) * s.dim;
        let delta: f64 = (0..s.dim).map(|c| d_out[at + c].widen() * out[at + c]).sum();
        for j in 0..s.seqlen_k {
            let at_k = (j * s.heads_kv + h / (s.heads_q / s.heads_kv)) * s.dim;
            let product: f64 = (0..s.dim).map(|c| q[at + c].widen() * k[at_k + c].widen()).sum();
            let p = (score(h, i, j, product * scale) - lse[h * s.seqlen_q + i]).exp();
            let dp: f64 = (0..s.dim).map(|c| d_out[at + c].widen() * v[at_k + c].widen()).sum();
            let ds = p * (dp - delta) * scale;
            for c in 0..s.dim {
                dq[at + c] += ds * k[at_k + c].widen();
                dk[at_k + c] += ds * q[at + c].widen();
                dv[at_k + c] += p * d_out[at + c].widen();
            }
        }
    }
    [dq, dk, dv]
}

#[test]
fn gradients_follow_from_float64() {
    let s = SIZES;
    let [q, d_out] = [1, 2].map(|seed| numbers::<F16>(count(&s.q()), seed));
    let [k, v] = [3, 4].map(|seed| numbers::<F16>(count(&s.k()), seed));
    let [q_view, d_out_view] = [&q, &d_out].map(|data| Tensor::new(data, &s.q()).unwrap());
    let [k_view, v_view] = [&k, &v].map(|data| Tensor::new(data, &s.k()).unwrap());
    let (mut out, mut lse) = (q.clone(), vec![0.0f32; count(&s.lse())]);
    Attention {
        mask: Mask::CausalBottomRight,
        lse: Some(TensorMut::new(&mut lse, &s.lse()).unwrap()),
        ..Attention::new(q_view, k_view, v_view, TensorMut::new(&mut out, &s.q()).unwrap())
    }
    .run()
    .unwrap();

    let (mut dq, mut dk, mut dv) = (q.clone(), k.clone(), v.clone());
    Backward {
        mask: Mask::CausalBottomRight,
        determinism: Determinism::Bitwise,
        dq: Some(TensorMut::new(&mut dq, &s.q()).unwrap()),
        dk: Some(TensorMut::new(&mut dk, &s.k()).unwrap()),
        dv: Some(TensorMut::new(&mut dv, &s.k()).unwrap()),
        ..Backward::new(
            q_view,
            k_view,
            v_view,
            Tensor::new(&out, &s.q()).unwrap(),
            Tensor::new(&lse, &s.lse()).unwrap(),
            d_out_view,
        )
    }
    .run()
    .unwrap();
    let expected = gradients(s, [&q, &k, &v, &d_out], causal(s));
    for (ours, expected) in [dq, dk, dv].iter().zip(&expected) {
        assert_close(ours, expected);
    }
}

#[test]
fn a_backward_without_gradients_is_an_error() {
    let (data, lse, shape) = ([F16(0); 8], [0.0f32], [1, 1, 1, 8]);
    let view = Tensor::new(&data, &shape).unwrap();
    let error = Backward::new(view, view, view, view, Tensor::new(&lse, &[1, 1, 1]).unwrap(), view).run().unwrap_err();
    assert!(error.message().contains("must not all be"), "{error}");
}

#[test]
fn append_writes_rotated_keys_behind_each_sequence() {
    // Two sequences of 3 and 1 rows in a cache of 6 get 2 rows each.
    let (batch, rows, new, heads, dim) = (2, 6, 2, 1, 8);
    let (k, v) = (numbers::<Bf16>(batch * new * heads * dim, 1), numbers::<Bf16>(batch * new * heads * dim, 2));
    let mut k_cache = vec![Bf16(0x4000); batch * rows * heads * dim];
    let mut v_cache = k_cache.clone();
    let (shape, cache) = ([batch, new, heads, dim], [batch, rows, heads, dim]);
    let angle = |position: usize, i: usize| (position as f32) / (1 << i) as f32;
    let table = |of: fn(f32) -> f32| -> Vec<f32> {
        (0..rows * dim / 2).map(|at| of(angle(at / (dim / 2), at % (dim / 2)))).collect()
    };
    let (cos, sin) = (table(f32::cos), table(f32::sin));
    let seqlens = [3, 1];
    Append {
        rotary_cos: Some(Tensor::new(&cos, &[rows, dim / 2]).unwrap()),
        rotary_sin: Some(Tensor::new(&sin, &[rows, dim / 2]).unwrap()),
        rotary_style: RotaryStyle::Interleaved,
        ..Append::new(
            Tensor::new(&k, &shape).unwrap(),
            Tensor::new(&v, &shape).unwrap(),
            TensorMut::new(&mut k_cache, &cache).unwrap(),
            TensorMut::new(&mut v_cache, &cache).unwrap(),
            Tensor::new(&seqlens, &[batch]).unwrap(),
        )
    }
    .run()
    .unwrap();
    for at in 0..batch * rows * dim {
        let (b, row, c) = (at / (rows * dim), at / dim % rows, at % dim);
        let first = seqlens[b] as usize;
        if row < first || row >= first + new {
            assert_eq!((k_cache[at], v_cache[at]), (Bf16(0x4000), Bf16(0x4000)), "row {row} of {b}");
            continue;
        }
        let from = (b * new + row - first) * dim + c;
        assert_eq!(v_cache[at], v[from]);
        let turn = f64::from(angle(row, c / 2));
        let (own, other) = (k[from].widen(), k[from ^ 1].widen());
        let expected = own * turn.cos() + if c % 2 == 0 { -other } else { other } * turn.sin();
        assert_close(&k_cache[at..=at], &[expected]);
    }
}

#[test]
fn merged_parts_are_attention_over_all_keys() {
    merge_parts(LseBase::Natural, 1.0);
    merge_parts(LseBase::Two, std::f64::consts::LOG2_E);
}

/// Merges parts whose LSE is the natural one times `unit`.
fn merge_parts(base: LseBase, unit: f64) {
    let s = Sizes { seqlen_k: 24, ..SIZES };
    let half = Sizes { seqlen_k: 12, ..s };
    let q = numbers::<F16>(count(&s.q()), 1);
    let (k, v) = (numbers::<F16>(count(&s.k()), 2), numbers::<F16>(count(&s.k()), 3));
    let (rows, sums) = (count(&s.q()), count(&s.lse()));
    let (mut parts, mut lse_parts) = (vec![F16(0); 2 * rows], vec![0.0f32; 2 * sums]);
    for part in 0..2 {
        let keys = part * k.len() / 2..(part + 1) * k.len() / 2;
        Attention {
            lse: Some(TensorMut::new(&mut lse_parts[part * sums..][..sums], &s.lse()).unwrap()),
            lse_base: base,
            ..Attention::new(
                Tensor::new(&q, &s.q()).unwrap(),
                Tensor::new(&k[keys.clone()], &half.k()).unwrap(),
                Tensor::new(&v[keys], &half.k()).unwrap(),
                TensorMut::new(&mut parts[part * rows..][..rows], &s.q()).unwrap(),
            )
        }
        .run()
        .unwrap();
    }
    let (mut out, mut lse) = (vec![0.0f32; rows], vec![0.0f32; sums]);
    Merge {
        lse: Some(TensorMut::new(&mut lse, &s.lse()).unwrap()),
        lse_base: base,
        ..Merge::new(
            Tensor::new(&parts, &[2, 1, s.seqlen_q, s.heads_q, s.dim]).unwrap(),
            Tensor::new(&lse_parts, &[2, 1, s.heads_q, s.seqlen_q]).unwrap(),
            TensorMut::new(&mut out, &s.q()).unwrap(),
        )
    }
    .run()
    .unwrap();
    let (expected, expected_lse) = attention(s, &q, &k, &v, plain);
    let rounded: Vec<F16> = out.iter().map(|&x| F16::from_f32(x)).collect();
    assert_close(&rounded, &expected);
    let expected_lse: Vec<f64> = expected_lse.iter().map(|x| x * unit).collect();
    assert_close_f32(&lse, &expected_lse);
}

#[test]
fn two_sequences_must_not_append_to_the_same_rows() {
    let (k, mut k_cache, mut v_cache) = ([F16(0x3c00); 16], [F16(0); 32], [F16(0); 32]);
    let view = Tensor::new(&k, &[2, 1, 1, 8]).unwrap();
    let (seqlens, entries) = ([1, 1], [0, 0]);
    let error = Append {
        cache_batch_idx: Some(Tensor::new(&entries, &[2]).unwrap()),
        ..Append::new(
            view,
            view,
            TensorMut::new(&mut k_cache, &[2, 2, 1, 8]).unwrap(),
            TensorMut::new(&mut v_cache, &[2, 2, 1, 8]).unwrap(),
            Tensor::new(&seqlens, &[2]).unwrap(),
        )
    }
    .run()
    .unwrap_err();
    assert!(error.message().contains("seqlens[1] = 1, must not lead to row 1 of entry 0"), "{error}");
}
