//! Compares `fa2::sys` with the C headers: a C compiler checks every struct, enumerator and function, and every function and
//! enumerator of the headers must be in `sys`.

use std::{any::type_name, collections::BTreeSet, fmt::Write, fs, mem::size_of, path::Path, process::Command};

use fa2::sys;

const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include");

/// Returns the C type of a Rust type, given as text.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(pointed) = rust.strip_prefix("*const ") {
        return c_type(pointed) + " const*";
    }
    if let Some(pointed) = rust.strip_prefix("*mut ") {
        return c_type(pointed) + "*";
    }
    match rust.rsplit("::").next().unwrap_or(rust) {
        "" | "()" => "void".into(),
        "i8" | "c_char" => "char".into(),
        "u8" => "uint8_t".into(),
        "i32" => "int32_t".into(),
        "u32" => "uint32_t".into(),
        "i64" => "int64_t".into(),
        "u64" => "uint64_t".into(),
        "f32" => "float".into(),
        "f64" => "double".into(),
        "usize" => "size_t".into(),
        "c_void" => "void".into(),
        name => name.into(),
    }
}

/// Declares a type of function pointers again, which C allows if it is the same type.
fn declare_pointer<T>(program: &mut String, name: &str) {
    let text = type_name::<T>();
    let arguments = &text[text.find("fn(").unwrap() + 3..text.rfind(')').unwrap()];
    let arguments: Vec<_> = arguments.split(',').map(c_type).collect();
    let result = text.split("-> ").nth(1).map_or("", |result| result.trim_end_matches('>'));
    writeln!(program, "typedef {} (*{name})({});", c_type(result), arguments.join(", ")).unwrap();
}

fn assert_struct<T>(program: &mut String, layout: &[(&str, &str, usize)]) {
    let name = type_name::<T>().rsplit("::").next().unwrap();
    writeln!(program, "_Static_assert(sizeof({name}) == {}, \"{name}\");", size_of::<T>()).unwrap();
    for (field, rust, offset) in layout {
        writeln!(program, "_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");").unwrap();
        let (rust, array) = match rust.strip_prefix('[') {
            Some(array) => (&array[..array.find(';').unwrap()], "[0]"),
            None => (*rust, ""),
        };
        writeln!(
            program,
            "_Static_assert(__builtin_types_compatible_p(__typeof__((({name}*)0)->{field}{array}), {}), \
             \"type of {name}.{field}\");",
            c_type(rust)
        )
        .unwrap();
    }
}

fn headers() -> String {
    let mut text = String::new();
    for entry in fs::read_dir(Path::new(INCLUDE).join("fa2")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("c_") {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    // Without comments and macros.
    let mut code = String::new();
    for (i, part) in text.split("/*").enumerate() {
        code += if i == 0 { part } else { part.split_once("*/").unwrap().1 };
    }
    code.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[test]
fn structs_enumerators_and_functions_are_those_of_the_headers() {
    let mut program = String::new();
    for header in [
        "append",
        "backward",
        "cache",
        "context_parallel",
        "dropout",
        "launch",
        "log",
        "machine",
        "merge",
        "pack",
        "score_text",
    ] {
        writeln!(program, "#include <fa2/c_{header}.h>").unwrap();
    }
    declare_pointer::<sys::fa2_progress>(&mut program, "fa2_progress");
    declare_pointer::<sys::fa2_log_callback>(&mut program, "fa2_log_callback");
    declare_pointer::<sys::fa2_allocate>(&mut program, "fa2_allocate");
    declare_pointer::<sys::fa2_release>(&mut program, "fa2_release");
    declare_pointer::<sys::fa2_poll>(&mut program, "fa2_poll");
    declare_pointer::<sys::fa2_body>(&mut program, "fa2_body");
    declare_pointer::<sys::fa2_exchange>(&mut program, "fa2_exchange");
    declare_pointer::<sys::fa2_wait>(&mut program, "fa2_wait");
    declare_pointer::<sys::fa2_all_gather>(&mut program, "fa2_all_gather");
    macro_rules! assert_structs {
        ($($name:ident)*) => { $(assert_struct::<sys::$name>(&mut program, &sys::$name::layout());)* };
    }
    assert_structs! {
        fa2_tensor fa2_array fa2_placement fa2_launch fa2_capture fa2_capture_spec fa2_score_text fa2_score_texts fa2_context_options fa2_plan_options fa2_precompile_options
        fa2_tune_options fa2_problem fa2_args fa2_backward_args fa2_append_problem fa2_append_args fa2_merge_problem
        fa2_merge_args fa2_transfer fa2_communicator_functions fa2_nccl_id fa2_nccl_options fa2_context_parallel_options
    }
    for (name, value) in sys::CALL_CONSTANTS.iter().chain(sys::HEADER_CONSTANTS) {
        writeln!(program, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }
    for (name, arguments, result) in sys::FUNCTIONS {
        let arguments: Vec<_> = arguments.iter().map(|rust| c_type(rust)).collect();
        let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
        writeln!(program, "{} {name}({arguments});", c_type(result)).unwrap();
    }

    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("headers.c");
    fs::write(&path, program).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(compiler)
        .args(["-std=c11", "-Werror", "-fsyntax-only", "-I", INCLUDE])
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn no_function_or_enumerator_of_the_headers_is_missing() {
    let code = headers();
    let functions: BTreeSet<_> = code
        .split("FA2_C_API ")
        .skip(1)
        .map(|declared| declared.split('(').next().unwrap().rsplit([' ', '*', '\n']).next().unwrap())
        .collect();
    assert!(functions.len() > 30);
    assert_eq!(functions, sys::FUNCTIONS.iter().map(|function| function.0).collect());

    let enumerators: BTreeSet<_> = code
        .split("enum {")
        .skip(1)
        .flat_map(|block| block.split('}').next().unwrap().split(','))
        .map(|one| one.split('=').next().unwrap().trim())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(enumerators.len() > 80);
    let ours = sys::CALL_CONSTANTS.iter().chain(sys::HEADER_CONSTANTS);
    assert_eq!(enumerators, ours.map(|constant| constant.0).collect());
}
