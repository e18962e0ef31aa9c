//! Attention on the interpreter, compared with float64.

mod support;

use fa2::{
    Attention, Bf16, Context, Device, EmptyRowLse, Error, LseBase, Mask, Problem, RowAlignment, Tensor, TensorMut, F16,
};
use support::*;

const SIZES: Sizes = Sizes { batch: 2, seqlen_q: 17, seqlen_k: 33, heads_q: 4, heads_kv: 2, dim: 16 };

/// Runs a call of contiguous tensors after `change`, and compares O and LSE.
fn check<T: Half>(s: Sizes, change: impl Fn(&mut Attention), score: impl Fn(usize, usize, usize, f64) -> f64) {
    let (q, k, v) = (numbers::<T>(count(&s.q()), 1), numbers::<T>(count(&s.k()), 2), numbers::<T>(count(&s.k()), 3));
    let (mut out, mut lse) = (vec![T::default(); q.len()], vec![0.0f32; count(&s.lse())]);
    let mut call = Attention {
        lse: Some(TensorMut::new(&mut lse, &s.lse()).unwrap()),
        ..Attention::new(
            Tensor::new(&q, &s.q()).unwrap(),
            Tensor::new(&k, &s.k()).unwrap(),
            Tensor::new(&v, &s.k()).unwrap(),
            TensorMut::new(&mut out, &s.q()).unwrap(),
        )
    };
    change(&mut call);
    call.run().unwrap();
    let (expected, expected_lse) = attention(s, &q, &k, &v, score);
    assert_close(&out, &expected);
    assert_close_f32(&lse, &expected_lse);
}

#[test]
fn grouped_heads_of_both_types() {
    check::<F16>(SIZES, |_| (), plain);
    check::<Bf16>(SIZES, |_| (), plain);
}

#[test]
fn causal_masks() {
    check::<F16>(SIZES, |call| call.mask = Mask::CausalBottomRight, causal(SIZES));
    let top_left = |_, i, j, x| if j <= i { x } else { f64::NEG_INFINITY };
    check::<F16>(SIZES, |call| call.mask = Mask::CausalTopLeft, top_left);
}

#[test]
fn a_query_without_a_key_has_output_zero() {
    let s = Sizes { seqlen_q: 9, seqlen_k: 5, ..SIZES };
    check::<F16>(s, |call| call.mask = Mask::CausalBottomRight, causal(s));
    let q = vec![F16(0x3c00); count(&s.q())];
    let k = vec![F16(0x3c00); count(&s.k())];
    let (mut out, mut lse) = (q.clone(), vec![0.0f32; count(&s.lse())]);
    let keys = Tensor::new(&k, &s.k()).unwrap();
    let mut call =
        Attention::new(Tensor::new(&q, &s.q()).unwrap(), keys, keys, TensorMut::new(&mut out, &s.q()).unwrap());
    call.lse = Some(TensorMut::new(&mut lse, &s.lse()).unwrap());
    call.mask = Mask::CausalBottomRight;
    call.empty_row_lse = EmptyRowLse::NegativeInfinity;
    call.run().unwrap();
    assert_eq!((out[0], lse[0]), (F16(0), f32::NEG_INFINITY));
}

#[test]
fn windows_chunks_softcap_scale_and_slopes() {
    let window = |_, i: usize, j: usize, x| if j + 4 >= i + 16 && j <= i + 17 { x } else { f64::NEG_INFINITY };
    check::<F16>(SIZES, |call| (call.window_left, call.window_right) = (Some(4), Some(1)), window);
    let chunk = |_, i: usize, j: usize, x| if j / 9 == (i + 16) / 9 { x } else { f64::NEG_INFINITY };
    check::<F16>(SIZES, |call| call.attention_chunk = Some(9), chunk);
    let capped = |_, _, _, x: f64| 0.5 * (x * 4.0 * 2.0 / 0.5).tanh();
    check::<F16>(SIZES, |call| (call.softcap, call.softmax_scale) = (0.5, Some(2.0)), capped);

    static SLOPES: [f32; 4] = [0.5, 0.25, 0.125, 0.0625];
    let biased = |h, i, j, x| x - f64::from(SLOPES[h]) * (i as f64 + 16.0 - j as f64).abs();
    check::<F16>(SIZES, |call| call.alibi_slopes = Some(Tensor::new(&SLOPES, &[4]).unwrap()), biased);
}

#[test]
fn lse_to_base_2_and_the_largest_logits_on_fewer_sms() {
    let s = SIZES;
    let (q, k) = (numbers::<F16>(count(&s.q()), 1), numbers::<F16>(count(&s.k()), 2));
    let (mut out, mut lse, mut logits) = (q.clone(), vec![0.0f32; count(&s.lse())], vec![f32::NAN; 8]);
    let keys = Tensor::new(&k, &s.k()).unwrap();
    let mut call =
        Attention::new(Tensor::new(&q, &s.q()).unwrap(), keys, keys, TensorMut::new(&mut out, &s.q()).unwrap());
    call.lse = Some(TensorMut::new(&mut lse, &s.lse()).unwrap());
    call.max_logits = Some(TensorMut::new(&mut logits, &[2, 4]).unwrap());
    (call.lse_base, call.sm_margin) = (LseBase::Two, 1);
    call.run().unwrap();
    let (expected, natural) = attention(s, &q, &k, &k, plain);
    assert_close(&out, &expected);
    let two: Vec<f64> = natural.iter().map(|x| x * std::f64::consts::LOG2_E).collect();
    assert_close_f32(&lse, &two);
    let rows = lse.len() / 8;
    for (i, logit) in logits.iter().enumerate() {
        // LSE lies above the row's largest score, by no more than log2 of the number of keys.
        let most = two[i * rows..][..rows].iter().cloned().fold(f64::NEG_INFINITY, f64::max) / std::f64::consts::LOG2_E;
        assert!(f64::from(*logit) < most && f64::from(*logit) > most - 33f64.ln() - 1e-5, "{logit} of {most}");
    }
}

#[test]
fn strided_views_of_one_packed_buffer() {
    // (batch, seqlen, 3, heads, dim): q, k and v lie side by side, and the output is (batch, heads, seqlen, dim).
    let s = Sizes { seqlen_k: 17, heads_kv: 4, ..SIZES };
    let packed = numbers::<F16>(3 * count(&s.q()), 4);
    let row = (3 * s.heads_q * s.dim) as isize;
    let strides = [17 * row, row, s.dim as isize, 1];
    let part = |which: usize| Tensor::strided(&packed, which * s.heads_q * s.dim, &s.q(), &strides).unwrap();
    let copied = |which: usize| -> Vec<F16> {
        packed.chunks(s.heads_q * s.dim).skip(which).step_by(3).flatten().copied().collect()
    };
    let mut out = vec![F16(0); count(&s.q())];
    let (head, dim) = (17 * s.dim as isize, s.dim as isize);
    let view = TensorMut::strided(&mut out, 0, &s.q(), &[4 * head, dim, head, 1]).unwrap();
    Attention::new(part(0), part(1), part(2), view).run().unwrap();
    let (expected, _) = attention(s, &copied(0), &copied(1), &copied(2), plain);
    let mut ours = vec![F16(0); out.len()];
    for (i, chunk) in out.chunks(s.dim).enumerate() {
        let (b, h, row) = (i / (4 * 17), i / 17 % 4, i % 17);
        ours[((b * 17 + row) * 4 + h) * s.dim..][..s.dim].copy_from_slice(chunk);
    }
    assert_close(&ours, &expected);
}

#[test]
fn rows_in_descending_order() {
    let s = Sizes { batch: 1, heads_kv: 4, ..SIZES };
    let (q, k) = (numbers::<F16>(count(&s.q()), 5), numbers::<F16>(count(&s.k()), 6));
    let row = (s.heads_kv * s.dim) as isize;
    let reversed = Tensor::strided(&k, 32 * row as usize, &s.k(), &[0, -row, 16, 1]).unwrap();
    let mut out = vec![F16(0); q.len()];
    let view = TensorMut::new(&mut out, &s.q()).unwrap();
    Attention::new(Tensor::new(&q, &s.q()).unwrap(), reversed, reversed, view).run().unwrap();
    assert_close(&out, &attention(s, &q, &k, &k, plain).0);
}

#[test]
fn packed_sequences() {
    let (lengths, heads, dim) = ([5usize, 0, 12], 2, 8);
    let total: usize = lengths.iter().sum();
    let (q, k) = (numbers::<F16>(total * heads * dim, 7), numbers::<F16>(total * heads * dim, 8));
    let starts = [0, 5, 5, 17];
    let table = Tensor::new(&starts, &[4]).unwrap();
    let shape = [total, heads, dim];
    let mut out = vec![F16(0); q.len()];
    let keys = Tensor::new(&k, &shape).unwrap();
    let mut call =
        Attention::new(Tensor::new(&q, &shape).unwrap(), keys, keys, TensorMut::new(&mut out, &shape).unwrap());
    (call.cu_seqlens_q, call.cu_seqlens_k) = (Some(table), Some(table));
    (call.max_seqlen_q, call.max_seqlen_k) = (Some(12), Some(12));
    call.run().unwrap();
    for (b, &seqlen) in lengths.iter().enumerate() {
        let rows = starts[b] as usize * heads * dim..starts[b + 1] as usize * heads * dim;
        let s = Sizes { batch: 1, seqlen_q: seqlen, seqlen_k: seqlen, heads_q: heads, heads_kv: heads, dim };
        let (q, k) = (&q[rows.clone()], &k[rows.clone()]);
        assert_close(&out[rows], &attention(s, q, k, k, plain).0);
    }
}

#[test]
fn pages_in_any_order() {
    // Two sequences of 6 and 3 keys in pages of 4 rows; page 2 belongs to nobody.
    let (heads, dim, lengths) = (2, 8, [6i32, 3]);
    let pages = numbers::<F16>(4 * 4 * heads * dim, 9);
    let q = numbers::<F16>(2 * heads * dim, 10);
    let run = |table: [i32; 4]| {
        let mut out = vec![F16(0); q.len()];
        let cache = Tensor::new(&pages, &[4, 4, heads, dim]).unwrap();
        let shape = [2, 1, heads, dim];
        let view = TensorMut::new(&mut out, &shape).unwrap();
        let mut call = Attention::new(Tensor::new(&q, &shape).unwrap(), cache, cache, view);
        call.page_table = Some(Tensor::new(&table, &[2, 2]).unwrap());
        call.seqused_k = Some(Tensor::new(&lengths, &[2]).unwrap());
        call.run().map(|()| out)
    };
    let out = run([3, 1, 0, -7]).unwrap();
    let page = |number: usize| &pages[number * 4 * heads * dim..][..4 * heads * dim];
    for (b, keys) in [[page(3), page(1)].concat(), page(0).to_vec()].iter().enumerate() {
        let seqlen_k = lengths[b] as usize;
        let s = Sizes { batch: 1, seqlen_q: 1, seqlen_k, heads_q: heads, heads_kv: heads, dim };
        let rows = b * heads * dim..(b + 1) * heads * dim;
        assert_close(&out[rows.clone()], &attention(s, &q[rows], keys, keys, plain).0);
    }
    let error = run([3, 4, 0, 0]).unwrap_err();
    assert!(error.message().contains("page_table[0][1] = 4, must be in 0..3"), "{error}");
}

#[test]
fn plans_run_the_calls_of_their_problem_only() {
    let s = SIZES;
    let problem = Problem {
        head_dim: 16,
        batch: 2,
        heads_q: 4,
        heads_kv: 2,
        seqlen_q: 17,
        seqlen_k: 33,
        window_left: Some(1000),
        ..Problem::default()
    };
    let plan = Context::default().plan(&problem, Device::Interpreter, RowAlignment::Element).unwrap();
    assert!(plan.explain().unwrap().contains("\"kernels\""));

    let (q, k) = (numbers::<F16>(count(&s.q()), 1), numbers::<F16>(count(&s.k()), 2));
    let run = |s: Sizes, mask| {
        let mut out = vec![F16(0); q.len()];
        let keys = Tensor::new(&k[..count(&s.k())], &s.k()).unwrap();
        let (q, o) = (Tensor::new(&q[..count(&s.q())], &s.q()), TensorMut::new(&mut out[..count(&s.q())], &s.q()));
        let mut call = Attention { mask, ..Attention::new(q.unwrap(), keys, keys, o.unwrap()) };
        plan.run(&mut call).map(|()| out)
    };
    assert_close(&run(s, Mask::None).unwrap(), &attention(s, &q, &k, &k, plain).0);
    let error = run(Sizes { batch: 1, seqlen_k: 32, ..s }, Mask::CausalTopLeft).unwrap_err();
    for wrong in ["batch = 1, must be 2", "seqlen_k = 32, must be 33", "mask = 2, must be 0"] {
        assert!(error.message().contains(wrong), "{error}");
    }
}

#[test]
fn errors_list_all_that_is_wrong() {
    let (q, k) = (vec![F16(0); 2 * 3 * 16], vec![Bf16(0); 2 * 3 * 8]);
    let mut out = vec![Bf16(0); 2 * 3 * 16];
    let error = Attention::new(
        Tensor::new(&q, &[1, 2, 3, 16]).unwrap(),
        Tensor::new(&k, &[1, 2, 3, 8]).unwrap(),
        Tensor::new(&q, &[1, 2, 3, 16]).unwrap(),
        TensorMut::new(&mut out, &[1, 2, 3, 16]).unwrap(),
    )
    .run()
    .unwrap_err();
    assert!(matches!(error, Error::InvalidRequest(_)));
    for name in ["k.dtype", "k.shape", "out.dtype"] {
        assert!(error.message().contains(name), "{error}");
    }
}

#[test]
fn outputs_whose_rows_overlap_are_rejected() {
    let q = vec![F16(0); 2 * 8];
    let mut out = vec![F16(0); 12];
    let tensor = Tensor::new(&q, &[1, 2, 1, 8]).unwrap();
    let view = TensorMut::strided(&mut out, 0, &[1, 2, 1, 8], &[12, 4, 8, 1]).unwrap();
    assert!(matches!(Attention::new(tensor, tensor, tensor, view).run(), Err(Error::InvalidRequest(_))));
}

#[test]
fn memory_of_a_gpu_is_not_mixed_with_slices() {
    let q = vec![F16(0); 8];
    let mut out = vec![F16(0); 8];
    let shape = [1, 1, 1, 8];
    let slice = Tensor::new(&q, &shape).unwrap();
    // SAFETY: the call fails before it uses the memory.
    let foreign = unsafe { Tensor::from_raw_parts(q.as_ptr(), 0, &shape, &[8, 8, 8, 1]) }.unwrap();
    let error = Attention::new(slice, foreign, slice, TensorMut::new(&mut out, &shape).unwrap()).run().unwrap_err();
    assert!(error.message().contains("k.device = cuda:0, must be cpu"), "{error}");
}

#[test]
fn threads_share_a_plan() {
    let s = Sizes { seqlen_q: 8, seqlen_k: 8, ..SIZES };
    let (q, k) = (numbers::<F16>(count(&s.q()), 1), numbers::<F16>(count(&s.k()), 2));
    let expected = attention(s, &q, &k, &k, plain).0;
    let problem =
        Problem { head_dim: 16, batch: 2, heads_q: 4, heads_kv: 2, seqlen_q: 8, seqlen_k: 8, ..Problem::default() };
    let context = Context::default();
    let plan = context.plan(&problem, Device::Interpreter, RowAlignment::Element).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut out = vec![F16(0); q.len()];
                let keys = Tensor::new(&k, &s.k()).unwrap();
                let view = TensorMut::new(&mut out, &s.q()).unwrap();
                plan.run(&mut Attention::new(Tensor::new(&q, &s.q()).unwrap(), keys, keys, view)).unwrap();
                assert_close(&out, &expected);
            });
        }
    });
}
