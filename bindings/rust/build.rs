//! Finds libfa2.so: in the folder that FA2_LIB_DIR names, else by `pkg-config --libs fa2`. For the example npy, embeds the kernel
//! pack that FA2_PACK names.

use std::{env, fs, path::Path, process::Command, process::ExitCode};

fn main() -> ExitCode {
    println!("cargo:rerun-if-env-changed=FA2_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let found = match env::var("FA2_LIB_DIR") {
        Ok(folder) => link_folder(&folder),
        Err(_) => link_package(),
    };
    match found.and_then(|()| embed_pack()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn link_folder(given: &str) -> Result<(), String> {
    let folder = Path::new(given).canonicalize().unwrap_or_default();
    if !folder.join("libfa2.so").exists() {
        return Err(format!("FA2_LIB_DIR = {given}, must be a folder with libfa2.so: build fa2, or unset it"));
    }
    let folder = folder.display();
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=dylib=fa2");
    // For this crate's own tests and examples: Cargo passes no link argument on to dependents.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    Ok(())
}

fn link_package() -> Result<(), String> {
    const ADVICE: &str = "set FA2_LIB_DIR to the folder of libfa2.so, or PKG_CONFIG_PATH to the folder of fa2.pc";
    let output = Command::new("pkg-config")
        .args(["--libs", "fa2"])
        .output()
        .map_err(|error| format!("pkg-config = {error}, must run: {ADVICE}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}\nlibfa2.so = not found, must be installed: {ADVICE}", why.trim()));
    }
    for flag in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        match flag.split_at(flag.len().min(2)) {
            ("-L", folder) => println!("cargo:rustc-link-search=native={folder}"),
            ("-l", library) => println!("cargo:rustc-link-lib=dylib={library}"),
            _ => println!("cargo:rustc-link-arg={flag}"),
        }
    }
    Ok(())
}

/// Writes pack.rs, with the bytes of the pack or none.
fn embed_pack() -> Result<(), String> {
    println!("cargo:rerun-if-env-changed=FA2_PACK");
    let mut pack = "None".to_string();
    if let Ok(given) = env::var("FA2_PACK") {
        let file = Path::new(&given)
            .canonicalize()
            .map_err(|error| format!("FA2_PACK = {given}, must be a file ({error}): `fa2 precompile` makes one"))?;
        println!("cargo:rerun-if-changed={}", file.display());
        pack = format!("Some(include_bytes!({file:?}))");
    }
    let folder = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let text = format!("const PACK: Option<&'static [u8]> = {pack};\n");
    fs::write(Path::new(&folder).join("pack.rs"), text).map_err(|error| error.to_string())
}
