//! Texts of scores and their captures on the interpreter, compared with float64.

mod support;

use fa2::{Attention, Backward, Bf16, Capture, Error, Problem, ScoreTexts, Scores, Tensor, TensorMut, F16};
use support::*;

const SIZES: Sizes = Sizes { batch: 2, seqlen_q: 17, seqlen_k: 33, heads_q: 4, heads_kv: 2, dim: 16 };

const SLOPE: &str = "const float t = tanh(score / cap()); return 1.0f - t * t;";

const TEXTS: ScoreTexts<'static> = ScoreTexts {
    bias: "return gain() * table(at.head, at.key);",
    modify: "return cap() * tanh(score / cap());",
    mod_slope: SLOPE,
    mask: "return shown(at.key) && at.key >= first() && far() > 0 && is_on();",
    mask_block: [0, 0],
};

fn make<'a>(texts: &ScoreTexts, captures: &[(&str, Capture<'a>)]) -> Result<Scores<'a>, Error> {
    // SAFETY: the texts of these tests compute numbers alone.
    unsafe { texts.make(captures) }
}

fn element(head: usize, key: usize) -> f64 {
    ((head * 7 + key * 3) % 11) as f64 / 8.0
}

fn is_shown(key: usize) -> bool {
    key % 5 != 2
}

/// Tensors that the texts capture.
struct Captured {
    table: Vec<Bf16>,
    shown: Vec<bool>,
}

impl Captured {
    fn new() -> Self {
        let table = (0..SIZES.heads_q * SIZES.seqlen_k)
            .map(|i| Bf16::from_f32(element(i / SIZES.seqlen_k, i % SIZES.seqlen_k) as f32))
            .collect();
        Self { table, shown: (0..SIZES.seqlen_k).rev().map(is_shown).collect() }
    }

    fn scores(&self, gain: f32) -> Scores<'_> {
        self.scores_of(&TEXTS, gain)
    }

    fn scores_of(&self, texts: &ScoreTexts, gain: f32) -> Scores<'_> {
        let table = Tensor::new(&self.table, &[SIZES.heads_q, SIZES.seqlen_k]).unwrap();
        // Backwards.
        let shown = Tensor::strided(&self.shown, SIZES.seqlen_k - 1, &[SIZES.seqlen_k], &[-1]).unwrap();
        make(
            texts,
            &[
                ("table", Capture::Tensor(table)),
                ("shown", Capture::Tensor(shown)),
                ("gain", Capture::F32(gain)),
                ("cap", Capture::I32(2)),
                ("first", Capture::I32(1)),
                ("far", Capture::I64(1 << 50)),
                ("is_on", Capture::Bool(true)),
            ],
        )
        .unwrap()
    }
}

fn expected_score(gain: f64) -> impl Fn(usize, usize, usize, f64) -> f64 {
    move |head, _, key, x| {
        if is_shown(key) && key >= 1 {
            2.0 * ((x + gain * element(head, key)) / 2.0).tanh()
        } else {
            f64::NEG_INFINITY
        }
    }
}

#[test]
fn texts_with_captures_of_every_type() {
    let s = SIZES;
    let (q, k, v) = (numbers::<F16>(count(&s.q()), 1), numbers(count(&s.k()), 2), numbers(count(&s.k()), 3));
    let captured = Captured::new();
    for gain in [0.5, 1.5] {
        let scores = captured.scores(gain);
        let (mut out, mut lse) = (vec![F16::default(); q.len()], vec![0.0f32; count(&s.lse())]);
        let mut call = Attention {
            lse: Some(TensorMut::new(&mut lse, &s.lse()).unwrap()),
            scores: Some(&scores),
            ..Attention::new(
                Tensor::new(&q, &s.q()).unwrap(),
                Tensor::new(&k, &s.k()).unwrap(),
                Tensor::new(&v, &s.k()).unwrap(),
                TensorMut::new(&mut out, &s.q()).unwrap(),
            )
        };
        let plan = fa2::Context::default().plan_for(&call).unwrap();
        plan.run(&mut call).unwrap();
        call.run().unwrap();
        let (expected, expected_lse) = attention(s, &q, &k, &v, expected_score(f64::from(gain)));
        assert_close(&out, &expected);
        assert_close_f32(&lse, &expected_lse);
    }
}

#[test]
fn a_bias_with_an_element_per_score() {
    const PITCH: usize = 40; // elements of a row: rows begin at multiples of 16 bytes
    let s = SIZES;
    let (q, k, v) = (numbers::<F16>(count(&s.q()), 1), numbers(count(&s.k()), 2), numbers(count(&s.k()), 3));
    let value = |head: usize, query: usize, key: usize| ((head * 31 + query * 7 + key * 13) % 33) as f64 / 8.0;
    let mut elements = vec![F16::round(0.0); (s.heads_q * s.seqlen_q + 1) * PITCH];
    let offset = (16 - elements.as_ptr() as usize % 16) % 16 / 2; // of an address that is a multiple of 16 bytes
    for head in 0..s.heads_q {
        for query in 0..s.seqlen_q {
            for key in 0..s.seqlen_k {
                elements[offset + (head * s.seqlen_q + query) * PITCH + key] = F16::round(value(head, query, key));
            }
        }
    }
    let shape = [1, s.heads_q, s.seqlen_q, s.seqlen_k];
    let strides = |pitch: usize| [0, (s.seqlen_q * pitch) as isize, pitch as isize, 1];
    let pair = |pitch| Capture::PerScore(Tensor::strided(&elements, offset, &shape, &strides(pitch)).unwrap());
    let text = ScoreTexts { bias: "return pair(at);", ..Default::default() };
    let run = |scores: &Scores| {
        let (mut out, mut lse) = (vec![F16::default(); q.len()], vec![0.0f32; count(&s.lse())]);
        let mut call = Attention {
            lse: Some(TensorMut::new(&mut lse, &s.lse()).unwrap()),
            scores: Some(scores),
            ..Attention::new(
                Tensor::new(&q, &s.q()).unwrap(),
                Tensor::new(&k, &s.k()).unwrap(),
                Tensor::new(&v, &s.k()).unwrap(),
                TensorMut::new(&mut out, &s.q()).unwrap(),
            )
        };
        call.run()?;
        Ok::<_, Error>((out, lse))
    };
    let (out, lse) = run(&make(&text, &[("pair", pair(PITCH))]).unwrap()).unwrap();
    let (expected, expected_lse) = attention(s, &q, &k, &v, |head, query, key, x| x + value(head, query, key));
    assert_close(&out, &expected);
    assert_close_f32(&lse, &expected_lse);

    let error = run(&make(&text, &[("pair", pair(PITCH - 1))]).unwrap()).unwrap_err();
    assert!(error.message().contains("captures.pair.strides[2] = 39, must be a positive multiple of 8"), "{error}");
    let numbers = Tensor::new(&[1i32], &[1; 4]).unwrap();
    let error = make(&text, &[("pair", Capture::PerScore(numbers))]).unwrap_err();
    assert!(error.message().contains("must be f16, bf16 or f32 of an element per score"), "{error}");
}

/// Returns dq of q, k, v, out and d_out.
fn dq_of(scores: &Scores, [q, k, v, out, d_out]: [&[F16]; 5], lse: &[f32]) -> Vec<F16> {
    let s = SIZES;
    let mut dq = vec![F16::default(); q.len()];
    let mut call = Backward {
        dq: Some(TensorMut::new(&mut dq, &s.q()).unwrap()),
        scores: Some(scores),
        ..Backward::new(
            Tensor::new(q, &s.q()).unwrap(),
            Tensor::new(k, &s.k()).unwrap(),
            Tensor::new(v, &s.k()).unwrap(),
            Tensor::new(out, &s.q()).unwrap(),
            Tensor::new(lse, &s.lse()).unwrap(),
            Tensor::new(d_out, &s.q()).unwrap(),
        )
    };
    call.run().unwrap();
    dq
}

#[test]
fn gradients_follow_from_the_texts() {
    let s = SIZES;
    let (q, k, v) = (numbers::<F16>(count(&s.q()), 1), numbers(count(&s.k()), 2), numbers::<F16>(count(&s.k()), 3));
    let d_out = numbers::<F16>(q.len(), 4);
    let captured = Captured::new();
    let scores = captured.scores(0.5);
    let (expected, lse) = attention(s, &q, &k, &v, expected_score(0.5));
    let out: Vec<_> = expected.iter().map(|&x| F16::round(x)).collect();
    let lse: Vec<_> = lse.iter().map(|&x| x as f32).collect();
    let dq = dq_of(&scores, [&q, &k, &v, &out, &d_out], &lse);
    // The difference of the loss, sum of O * dO, between two neighbours of q.
    for i in [0, 5, 100, q.len() - 1] {
        let loss = |step: f64| {
            let mut moved = q.clone();
            moved[i] = F16::round(q[i].widen() + step);
            let (out, _) = attention(s, &moved, &k, &v, expected_score(0.5));
            (moved[i].widen(), out.iter().zip(&d_out).map(|(o, d)| o * d.widen()).sum::<f64>())
        };
        let ((low, before), (high, after)) = (loss(-0.03), loss(0.03));
        let slope = (after - before) / (high - low);
        assert!((dq[i].widen() - slope).abs() < 0.01, "dq[{i}] = {:?}, must be {slope}", dq[i]);
    }
}

#[test]
fn gradients_take_the_slope() {
    let [q, d_out] = [1, 4].map(|seed| numbers::<F16>(count(&SIZES.q()), seed));
    let [k, v] = [2, 3].map(|seed| numbers::<F16>(count(&SIZES.k()), seed));
    let (captured, lse) = (Captured::new(), vec![1.0; count(&SIZES.lse())]);
    let with_slope = |mod_slope| {
        let scores = captured.scores_of(&ScoreTexts { mod_slope, ..TEXTS }, 0.5);
        dq_of(&scores, [&q, &k, &v, &q, &d_out], &lse)
    };
    let derived = with_slope("");
    let twice = with_slope("const float t = tanh(score / cap()); return 2.0f - 2.0f * t * t;");
    assert!(derived.iter().any(|x| x.widen().abs() > 0.1));
    for (once, twice) in derived.iter().zip(&twice) {
        assert!((2.0 * once.widen() - twice.widen()).abs() < 0.01, "{twice:?}, must be twice {once:?}");
    }
}

#[test]
fn a_slope_is_checked_on_the_host() {
    let s = SIZES;
    let problem = Problem {
        batch: s.batch as i64,
        heads_q: s.heads_q as i64,
        seqlen_q: s.seqlen_q as i64,
        seqlen_k: s.seqlen_k as i64,
        ..Default::default()
    };
    let captured = Captured::new();
    let checked = |mod_slope| captured.scores_of(&ScoreTexts { mod_slope, ..TEXTS }, 0.5).check(&problem);
    checked("").unwrap();
    checked(SLOPE).unwrap();
    let error = checked("return 1.0f - tanh(score / cap());").unwrap_err();
    assert!(matches!(error, Error::InvalidRequest(_)), "{error:?}");
    assert!(error.message().contains("mod_slope = "), "{error}");
    assert!(error.message().contains("d mod / d score, at score "), "{error}");
    assert!(error.message().contains(", key "), "{error}");
    let error = checked("return nonsense;").unwrap_err();
    assert!(matches!(error, Error::Compile(_)), "{error:?}");

    let alone = ScoreTexts { mask: "return true;", mod_slope: "return 1;", ..Default::default() };
    let error = make(&alone, &[]).unwrap_err();
    assert!(error.message().contains("mod_slope = return 1;, must be empty without mod"), "{error}");
    // SAFETY: no call reads it.
    let elsewhere = unsafe { Tensor::from_raw_parts([1.0f32].as_ptr(), 3, &[1], &[1]) }.unwrap();
    let text = ScoreTexts { modify: "return score * x(0);", ..Default::default() };
    let error = make(&text, &[("x", Capture::Tensor(elsewhere))]).unwrap().check(&problem).unwrap_err();
    assert!(error.message().contains("captures.x.device = 3, must be -2"), "{error}");
}

#[test]
fn texts_have_a_number_and_mistakes_are_errors() {
    let even = ScoreTexts { mask: "return at.key % 2 == 0;", ..Default::default() };
    let number = make(&even, &[]).unwrap().number();
    assert!(number > 0);
    assert_eq!(make(&even, &[]).unwrap().number(), number);
    assert_ne!(make(&even, &[("unused", Capture::F32(1.0))]).unwrap().number(), number);
    for wrong in ["", "return (true;", "return true;\0"] {
        let error = make(&ScoreTexts { mask: wrong, ..Default::default() }, &[]).unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{error:?}");
    }
    let message = |captures: &[(&str, Capture)]| make(&even, captures).unwrap_err().message().to_string();
    assert!(message(&[("2x", Capture::I32(1))]).contains("captures[0].name = 2x"));
    assert!(message(&[("x", Capture::I64((1 << 53) + 1))]).contains("must have at most 53 bits"));
    let five = Tensor::new(&[1.0f32], &[1; 5]).unwrap();
    assert!(message(&[("x", Capture::Tensor(five))]).contains("captures[0].dimensions = 5"));
    let bytes = [fa2::F8E4M3(0)];
    let wrong = Tensor::new(&bytes, &[1]).unwrap();
    assert!(message(&[("x", Capture::Tensor(wrong))]).contains("captures[0].type"));
}

#[test]
fn masks_have_blocks() {
    let with =
        |mask_block| ScoreTexts { mask: "return at.key / 64 == at.query / 64;", mask_block, ..Default::default() };
    let number = |mask_block| make(&with(mask_block), &[]).unwrap().number();
    assert_eq!(number([0, 0]), number([1, 1]));
    assert_ne!(number([64, 64]), number([1, 1]));
    assert_ne!(number([64, 64]), number([64, 1]));
    assert_ne!(number([64, 1]), number([1, 64]));
    let error = make(&with([-1, 64]), &[]).unwrap_err();
    assert!(matches!(error, Error::InvalidRequest(_)), "{error:?}");
    assert!(error.message().contains("mask_block.queries = -1, must be in 1..1048576"), "{error}");
    let error = make(&with([64, (1 << 20) + 1]), &[]).unwrap_err();
    assert!(error.message().contains("mask_block.keys = 1048577, must be in 1..1048576"), "{error}");
    let without = ScoreTexts { bias: "return at.key;", mask_block: [1, 64], ..Default::default() };
    let error = make(&without, &[]).unwrap_err();
    assert!(error.message().contains("mask_block.keys = 64, must be 1 without a mask"), "{error}");

    let problem = Problem { seqlen_q: 200, seqlen_k: 300, ..Default::default() };
    let checked = |mask_block| make(&with(mask_block), &[]).unwrap().check(&problem);
    checked([64, 64]).unwrap();
    checked([32, 16]).unwrap();
    for wrong in [[128, 64], [64, 128], [48, 64]] {
        let error = checked(wrong).unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{error:?}");
        let expected = format!(
            "mask_block = {} x {}, must be blocks in which the mask is the same: of batch ",
            wrong[0], wrong[1]
        );
        assert!(error.message().contains(&expected), "{error}");
    }
}

#[test]
fn captures_lie_on_the_device_of_the_call_and_other_tensors_are_no_booleans() {
    let s = Sizes { batch: 1, seqlen_q: 8, seqlen_k: 8, heads_q: 1, heads_kv: 1, dim: 16 };
    let q = numbers::<F16>(count(&s.q()), 1);
    let mut out = q.clone();
    let tensor = Tensor::new(&q, &s.q()).unwrap();
    let text = ScoreTexts { bias: "return table(0);", ..Default::default() };
    // SAFETY: no call reads it.
    let elsewhere = unsafe { Tensor::from_raw_parts([1.0f32].as_ptr(), 3, &[1], &[1]) }.unwrap();
    let scores = make(&text, &[("table", Capture::Tensor(elsewhere))]).unwrap();
    let mut call = Attention::new(tensor, tensor, tensor, TensorMut::new(&mut out, &s.q()).unwrap());
    call.scores = Some(&scores);
    let error = call.run().unwrap_err();
    assert!(error.message().contains("captures.table.device = 3, must be -2"), "{error}");

    let flags = vec![true; q.len()];
    let wrong = Tensor::new(&flags, &s.q()).unwrap();
    let error = Attention::new(wrong, tensor, tensor, TensorMut::new(&mut out, &s.q()).unwrap()).run().unwrap_err();
    assert!(error.message().contains("q"), "{error}");
}

#[test]
fn plans_take_the_number() {
    let problem = Problem {
        head_dim: 16,
        seqlen_q: 8,
        seqlen_k: 8,
        score_text: make(&ScoreTexts { bias: "return at.key;", ..Default::default() }, &[]).unwrap().number(),
        ..Default::default()
    };
    let plan = fa2::Context::default().plan(&problem, fa2::Device::Interpreter, fa2::RowAlignment::Bytes16).unwrap();
    assert!(plan.explain().unwrap().contains("score_text"));
}
