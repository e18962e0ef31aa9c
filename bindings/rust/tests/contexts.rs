//! Contexts, plans and precompilation.

use std::{fs, path::PathBuf};

use fa2::{Context, ContextOptions, Device, Error, Plan, PrecompileOptions, Problem, RowAlignment};

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn problem() -> Problem {
    Problem { head_dim: 8, seqlen_q: 4, seqlen_k: 4, ..Problem::default() }
}

fn plan_in(context: &Context) -> Plan {
    context.plan(&problem(), Device::Interpreter, RowAlignment::Bytes16).unwrap()
}

#[test]
fn contexts_keep_kernels_in_their_own_folder() {
    let options = ContextOptions { cache_dir: Some(folder("kernels")), ..Default::default() };
    let context = Context::new(&options).unwrap();
    let plan = plan_in(&context);
    assert!(plan.explain().unwrap().contains("\"origin\": \"compiled\""));
    // A plan outlives its context.
    drop(context);
    assert!(plan.explain().is_ok());
    let later = plan_in(&Context::new(&options).unwrap());
    assert!(later.explain().unwrap().contains("\"origin\": \"disk_cache\""), "{}", later.explain().unwrap());
}

#[test]
fn contexts_move_between_threads() {
    fn requires<T: Send + Sync>() {}
    requires::<Context>();
    requires::<Plan>();
    let context = Context::new(&ContextOptions { cache_dir: Some(folder("moved")), ..Default::default() }).unwrap();
    let plan = std::thread::spawn(move || plan_in(&context)).join().unwrap();
    assert!(plan.explain().is_ok());
}

#[test]
fn wrong_settings_are_invalid_requests() {
    let wrong = [
        ContextOptions { config: Some("tile_x=7".into()), ..Default::default() },
        ContextOptions { config: Some("tile_m\0".into()), ..Default::default() },
        ContextOptions { read_only_caches: vec!["a:b".into()], ..Default::default() },
        ContextOptions { tune_budget_ms: -1, ..Default::default() },
    ];
    for options in wrong {
        let error = Context::new(&options).unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{error:?}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn wrong_problems_list_every_field() {
    let wrong = Problem { head_dim: 12, heads_q: 3, heads_kv: 2, batch: -1, ..problem() };
    let error = Context::default().plan(&wrong, Device::Interpreter, RowAlignment::Bytes16).unwrap_err();
    for name in ["head_dim", "heads_kv", "batch"] {
        assert!(error.message().contains(name), "{error}");
    }
}

#[test]
fn precompile_rejects_unknown_architectures() {
    let error = Context::default().precompile(&[problem()], &["sm_1"], &PrecompileOptions::default()).unwrap_err();
    assert!(error.message().contains("sm_1"), "{error}");
}

#[test]
fn bytes_that_are_no_pack_are_rejected() {
    // SAFETY: no kernel comes from bytes that the library rejects.
    let error = unsafe { fa2::add_pack("not a pack", b"not a pack") }.unwrap_err();
    assert!(matches!(error, Error::Cache(_)), "{error:?}");
}

#[test]
fn the_version_is_that_of_the_crate() {
    assert_eq!(fa2::version(), env!("CARGO_PKG_VERSION"));
}
