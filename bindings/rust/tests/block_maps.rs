//! Maps of the blocks that masks show, held between calls, on the interpreter. A call whose captures hold something else than when
//! its map was made has other results, which shows that it reads the map.

mod support;

use std::thread;

use fa2::{Attention, Backward, BlockMap, Capture, Context, Error, ScoreTexts, Scores, Tensor, TensorMut, F16};
use support::*;

const SIZES: Sizes = Sizes { batch: 1, seqlen_q: 300, seqlen_k: 411, heads_q: 2, heads_kv: 1, dim: 64 };

/// Returns the document of each row, for documents of `length` rows.
fn documents(length: usize) -> Vec<i32> {
    (0..SIZES.seqlen_k).map(|row| (row / length) as i32).collect()
}

fn scores_of<'a>(texts: &ScoreTexts, documents: &'a [i32]) -> Scores<'a> {
    let captured = Capture::Tensor(Tensor::new(documents, &[documents.len()]).unwrap());
    // SAFETY: the texts compute numbers alone.
    unsafe { texts.make(&[("document", captured)]) }.unwrap()
}

fn masked(documents: &[i32]) -> Scores<'_> {
    let mask = "return document(at.query) == document(at.key);";
    scores_of(&ScoreTexts { mask, ..Default::default() }, documents)
}

struct Inputs {
    q: Vec<F16>,
    k: Vec<F16>,
    v: Vec<F16>,
}

impl Inputs {
    fn new() -> Self {
        let s = SIZES;
        Self { q: numbers(count(&s.q()), 1), k: numbers(count(&s.k()), 2), v: numbers(count(&s.k()), 3) }
    }

    fn call<'a>(&'a self, scores: &'a Scores<'a>, out: &'a mut [F16]) -> Attention<'a> {
        let s = SIZES;
        Attention {
            scores: Some(scores),
            ..Attention::new(
                Tensor::new(&self.q, &s.q()).unwrap(),
                Tensor::new(&self.k, &s.k()).unwrap(),
                Tensor::new(&self.v, &s.k()).unwrap(),
                TensorMut::new(out, &s.q()).unwrap(),
            )
        }
    }

    /// Returns the output of a call with a map, or without one, whose captures have this version.
    fn run(&self, scores: &Scores, block_map: Option<&BlockMap>, version: u64) -> Result<Vec<F16>, Error> {
        let mut out = vec![F16::default(); self.q.len()];
        Attention { block_map, block_map_version: version, ..self.call(scores, &mut out) }.run().map(|()| out)
    }

    /// Returns the gradients of q, k and v for an LSE of 1 and an output like q. A kernel with a map computes them together.
    fn gradients(&self, scores: &Scores, block_map: Option<&BlockMap>) -> Result<[Vec<F16>; 3], Error> {
        let s = SIZES;
        let (lse, d_out) = (vec![1.0f32; count(&s.lse())], numbers::<F16>(self.q.len(), 4));
        let [mut dq, mut dk, mut dv] = [&self.q, &self.k, &self.v].map(|x| vec![F16::default(); x.len()]);
        Backward {
            dq: Some(TensorMut::new(&mut dq, &s.q()).unwrap()),
            dk: Some(TensorMut::new(&mut dk, &s.k()).unwrap()),
            dv: Some(TensorMut::new(&mut dv, &s.k()).unwrap()),
            scores: Some(scores),
            block_map,
            block_map_version: block_map.map_or(0, BlockMap::version),
            ..Backward::new(
                Tensor::new(&self.q, &s.q()).unwrap(),
                Tensor::new(&self.k, &s.k()).unwrap(),
                Tensor::new(&self.v, &s.k()).unwrap(),
                Tensor::new(&self.q, &s.q()).unwrap(),
                Tensor::new(&lse, &s.lse()).unwrap(),
                Tensor::new(&d_out, &s.q()).unwrap(),
            )
        }
        .run()?;
        Ok([dq, dk, dv])
    }
}

#[test]
fn calls_make_a_map_and_read_it() {
    let inputs = Inputs::new();
    let (short, whole) = (documents(50), documents(SIZES.seqlen_k));
    let (short, whole) = (masked(&short), masked(&whole));
    let (of_short, of_whole) = (inputs.run(&short, None, 0).unwrap(), inputs.run(&whole, None, 0).unwrap());
    assert!(of_short != of_whole);
    {
        let map = BlockMap::new(7).unwrap();
        assert_eq!(map.version(), 7);
        assert!(inputs.run(&short, Some(&map), 7).unwrap() == of_short);
        assert!(inputs.run(&short, Some(&map), 7).unwrap() == of_short);
        // The blocks of the old map are visited.
        assert!(inputs.run(&whole, Some(&map), 7).unwrap() != of_whole);
    }
    let map = BlockMap::new(8).unwrap();
    assert!(inputs.run(&whole, Some(&map), 8).unwrap() == of_whole);
    assert!(inputs.run(&short, None, 0).unwrap() == of_short);
}

#[test]
fn gradients_share_the_map_of_the_forward() {
    let inputs = Inputs::new();
    let (short, whole) = (documents(50), documents(SIZES.seqlen_k));
    let (short, whole) = (masked(&short), masked(&whole));
    let [of_short, of_whole] = [&short, &whole].map(|scores| inputs.gradients(scores, None).unwrap());
    let map = BlockMap::new(0).unwrap();
    inputs.run(&short, Some(&map), 0).unwrap();
    for _ in 0..2 {
        let [dq, dk, dv] = inputs.gradients(&short, Some(&map)).unwrap();
        // Blocks add to dq in any order.
        assert_close(&dq, &of_short[0].iter().map(|x| x.widen()).collect::<Vec<_>>());
        assert!([dk, dv] == of_short[1..]);
    }
    let stale = inputs.gradients(&whole, Some(&map)).unwrap();
    assert!(stale[1] != of_whole[1]);
    assert!(stale[2] != of_whole[2]);
}

#[test]
fn plans_read_the_map_of_a_call() {
    let inputs = Inputs::new();
    let (short, whole) = (documents(50), documents(SIZES.seqlen_k));
    let (short, whole) = (masked(&short), masked(&whole));
    let plan = Context::default().plan_for(&inputs.call(&short, &mut vec![F16::default(); inputs.q.len()])).unwrap();
    let of_whole = inputs.run(&whole, None, 0).unwrap();
    let map = BlockMap::new(3).unwrap();
    let run = |version| {
        let mut out = vec![F16::default(); inputs.q.len()];
        let call = inputs.call(&whole, &mut out);
        plan.run(&mut Attention { block_map: Some(&map), block_map_version: version, ..call }).map(|()| out)
    };
    assert!(run(3).unwrap() == of_whole, "it makes a map for itself");
    inputs.run(&short, Some(&map), 3).unwrap();
    assert!(run(3).unwrap() != of_whole);
    let error = run(4).unwrap_err();
    assert!(error.message().contains("block_map_version = 4, must be 3, the map's"), "{error}");
}

#[test]
fn maps_that_do_not_fit_are_errors() {
    let inputs = Inputs::new();
    let of_rows = documents(50);
    let scores = masked(&of_rows);
    let map = BlockMap::new(7).unwrap();
    let refused = |scores: &Scores, map, version| {
        let error = inputs.run(scores, map, version).unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{error:?}");
        error.message().to_string()
    };
    for _ in 0..2 {
        let error = refused(&scores, Some(&map), 8);
        assert!(error.contains("block_map_version = 8, must be 7, the map's: make another map"), "{error}");
        inputs.run(&scores, Some(&map), 7).unwrap();
    }
    let error = refused(&scores, None, 7);
    assert!(error.contains("block_map_version = 7, must be 0: the call has no block_map"), "{error}");
    let unmasked = scores_of(&ScoreTexts { bias: "return document(at.key);", ..Default::default() }, &of_rows);
    let error = refused(&unmasked, Some(&map), 7);
    assert!(error.contains("block_map = given, must be null, or the problem's score_text have a mask"), "{error}");
    let mask = "return document(at.query) <= document(at.key);";
    let other = scores_of(&ScoreTexts { mask, ..Default::default() }, &of_rows);
    let error = refused(&other, Some(&map), 7);
    assert!(error.contains("block_map = of score_text = "), "{error}");

    let mut out = vec![F16::default(); inputs.q.len()];
    let call = Attention { scores: None, ..inputs.call(&scores, &mut out) };
    let error = Attention { block_map: Some(&map), block_map_version: 7, ..call }.run().unwrap_err();
    assert!(error.message().contains("block_map = given, must be null"), "{error}");
    let wrong = inputs.gradients(&unmasked, Some(&map)).unwrap_err();
    assert!(wrong.message().contains("block_map = given, must be null"), "{wrong}");
}

#[test]
fn threads_share_a_map_which_outlives_its_captures() {
    let inputs = Inputs::new();
    let map = BlockMap::new(1).unwrap();
    let expected = {
        let of_rows = documents(90);
        let scores = masked(&of_rows);
        let expected = inputs.run(&scores, None, 0).unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert!(inputs.run(&scores, Some(&map), 1).unwrap() == expected));
            }
        });
        expected
    };
    let of_rows = documents(90);
    let again = inputs.run(&masked(&of_rows), Some(&map), 1).unwrap();
    thread::spawn(move || drop(map)).join().unwrap();
    assert!(again == expected);
    drop(BlockMap::new(2).unwrap()); // no call has used it
}
