//! Writes the Rust side of what `abi.h` declares, and of the shim's functions. The build script
//! includes this file.
//!
//! It knows what the shim needs and no more. `abi.h` has `enum class`, `struct`, and `typedef` of a
//! pointer to a function, with a name for each parameter; anything else fails the build. A function
//! is called `lsm_sieve_...` and is `noexcept`.

use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "// ---- generate.rs reads from here on\n";

/// Writes the file `rust`.
#[expect(
    clippy::disallowed_methods,
    reason = "a file of the build needs no sync"
)]
pub(crate) fn write(abi: &Path, sources: &[PathBuf], rust: &Path) {
    let read = |file: &Path| fs::read_to_string(file).expect("a source can be read");
    let header = read(abi);
    let (_, declared) = header.split_once(BEGIN).expect("abi.h has the line");
    let functions = sources.iter().map(|source| functions(&code(&read(source))));
    let functions: String = functions.collect();
    let text = types(&code(declared)) + "unsafe extern \"C\" {\n" + &functions + "}\n";
    fs::write(rust, text).expect("the build's folder can be written");
}

/// A text without comments and directives, in one line.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let code = lines.flat_map(|line| {
        line.split("//")
            .next()
            .unwrap_or_default()
            .split_whitespace()
    });
    code.collect::<Vec<&str>>().join(" ")
}

fn types(code: &str) -> String {
    let (objects, mut rest) = code.split_once("} ").expect(code);
    let objects = objects.split("struct ").skip(1);
    let objects =
        objects.map(|name| format!("pub(crate) enum {} {{}}\n", name.trim_end_matches("; ")));
    let mut rust: String = objects.collect();
    while !rest.starts_with('}') {
        let end = if rest.starts_with("typedef ") {
            "; "
        } else {
            "}; "
        };
        let (item, next) = rest.split_once(end).expect(rest);
        rust += &match item.split_once(" { ") {
            None => alias(item),
            Some((head, body)) if head.starts_with("struct ") => structure(head, body),
            Some((head, body)) => enumeration(head, body),
        };
        rest = next;
    }
    rust
}

/// `typedef RESULT (*NAME)(PARAMETERS)`
fn alias(item: &str) -> String {
    let (name, pointer) = named(item.strip_prefix("typedef ").expect(item));
    format!("pub(crate) type {name} = {pointer};\n")
}

/// `struct NAME { FIELD; FIELD; `
fn structure(head: &str, body: &str) -> String {
    let name = head.strip_prefix("struct ").expect(head);
    let fields = body.split_terminator("; ").map(named);
    let fields = fields.map(|(name, kind)| format!("    pub(super) {name}: {kind},\n"));
    let fields: String = fields.collect();
    format!("#[derive(Clone, Copy)]\n#[repr(C)]\npub(crate) struct {name} {{\n{fields}}}\n")
}

/// `enum class NAME : TYPE { kOne, kTwo `
fn enumeration(head: &str, body: &str) -> String {
    let head = head.strip_prefix("enum class ").expect(head);
    let (name, size) = head.split_once(" : ").expect(head);
    let values = body
        .trim()
        .split(", ")
        .map(|value| value.strip_prefix('k').expect(value));
    let values = values.collect::<Vec<&str>>().join(", ");
    let attributes = "#[allow(dead_code, reason = \"C++ makes them\")]\n#[derive(Clone, Copy)]";
    format!(
        "{attributes}\n#[repr({})]\npub(crate) enum {name} {{ {values} }}\n",
        kind(size)
    )
}

/// The declarations of the functions `RESULT lsm_sieve_NAME(PARAMETERS) noexcept {`.
fn functions(code: &str) -> String {
    let heads = code
        .split(") noexcept {")
        .filter_map(|text| text.rsplit(['{', '}', ';']).next());
    let heads = heads.filter_map(|head| head.trim().split_once('('));
    let heads = heads.filter(|(head, _)| head.contains("lsm_sieve_"));
    let declared = heads.map(|(head, parameters)| {
        let (name, result) = named(head);
        let parameters = parameters.split(", ").map(named);
        let parameters = parameters.map(|(name, kind)| format!("{name}: {kind}"));
        let parameters = parameters.collect::<Vec<String>>().join(", ");
        format!(
            "    pub(super) fn {name}({parameters}){};\n",
            arrow(&result)
        )
    });
    declared.collect()
}

/// The name and the type of a declaration, such as a parameter.
fn named(declaration: &str) -> (&str, String) {
    let Some((result, rest)) = declaration.split_once(" (*") else {
        let at = declaration.rfind([' ', '*']).expect(declaration) + 1;
        return (&declaration[at..], kind(declaration[..at].trim()));
    };
    let (name, parameters) = rest.split_once(")(").expect(rest);
    let parameters = parameters.strip_suffix(')').expect(rest).split(", ");
    let parameters = parameters.map(|parameter| named(parameter).1);
    let parameters = parameters.collect::<Vec<String>>().join(", ");
    let result = arrow(&kind(result));
    (name, format!("extern \"C\" fn({parameters}){result}"))
}

fn arrow(result: &str) -> String {
    match result {
        "c_void" => String::new(),
        _ => format!(" -> {result}"),
    }
}

/// The Rust type of a C++ type.
fn kind(cpp: &str) -> String {
    if let Some(target) = cpp.strip_suffix('*') {
        let constant = target.strip_suffix(" const");
        let constant = constant.or(target
            .strip_prefix("const ")
            .filter(|target| !target.ends_with('*')));
        return match constant {
            Some(target) => format!("*const {}", kind(target)),
            None => format!("*mut {}", kind(target)),
        };
    }
    let rust = match cpp {
        "void" => "c_void",
        "char" => "c_char",
        "int" => "c_int",
        "size_t" => "usize",
        "uint8_t" => "u8",
        "uint32_t" => "u32",
        "int64_t" => "i64",
        "uint64_t" => "u64",
        _ => cpp.strip_prefix("rust::").unwrap_or(cpp),
    };
    rust.to_owned()
}
