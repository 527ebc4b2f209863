//! Writes the Rust types of what `abi.h` declares. The build script includes this file.
//!
//! It knows what `abi.h` needs and no more: `enum class`, `struct`, and `typedef` of a pointer to a
//! function, with a name for each parameter. Anything else fails the build.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const BEGIN: &str = "// ---- generate.rs reads from here on\n";

/// Writes the types that `header` declares to the file `rust`.
#[expect(
    clippy::disallowed_methods,
    reason = "a file of the build needs no sync"
)]
pub(crate) fn write(header: &Path, rust: &Path) {
    println!("cargo:rerun-if-changed={}", header.display());
    let text = fs::read_to_string(header).expect("abi.h can be read");
    fs::write(rust, types(&text)).expect("the build's folder can be written");
}

fn types(header: &str) -> String {
    let (_, text) = header.split_once(BEGIN).expect("abi.h has the line");
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let code = code.collect::<Vec<&str>>().join(" ");
    let mut rest = code.split_whitespace().collect::<Vec<&str>>().join(" ");
    let mut rust = String::new();
    while !rest.starts_with('}') {
        let is_function = rest.starts_with("typedef ");
        let (item, next) = rest
            .split_once(if is_function { "; " } else { "}; " })
            .expect(&rest);
        rust += &match item.split_once(" { ") {
            None => function(item),
            Some((head, body)) if head.starts_with("struct ") => structure(head, body),
            Some((head, body)) => enumeration(head, body),
        };
        rest = next.to_owned();
    }
    rust
}

/// `typedef RESULT (*NAME)(PARAMETERS)`
fn function(item: &str) -> String {
    let item = item.strip_prefix("typedef ").expect(item);
    let (name, pointer) = named(item);
    format!("pub(crate) type {name} = {pointer};\n")
}

/// `struct NAME { FIELD; FIELD; `
fn structure(head: &str, body: &str) -> String {
    let name = head.strip_prefix("struct ").expect(head);
    let mut rust = format!("#[derive(Clone, Copy)]\n#[repr(C)]\npub(crate) struct {name} {{\n");
    for field in body.split_terminator("; ") {
        let (name, kind) = named(field);
        writeln!(rust, "    pub(super) {name}: {kind},").expect("memory");
    }
    rust + "}\n"
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
    format!(
        "#[allow(dead_code, reason = \"C++ makes them\")]\n#[derive(Clone, Copy)]\n#[repr({})]\npub(crate) enum {name} {{ {values} }}\n",
        kind(size)
    )
}

/// The name and the type of a field or a parameter.
fn named(declaration: &str) -> (&str, String) {
    let Some((result, rest)) = declaration.split_once(" (*") else {
        let at = declaration.rfind([' ', '*']).expect(declaration) + 1;
        return (&declaration[at..], kind(declaration[..at].trim()));
    };
    let (name, parameters) = rest.split_once(")(").expect(rest);
    let parameters = parameters.strip_suffix(')').expect(rest).split(", ");
    let parameters = parameters.map(|parameter| named(parameter).1);
    let parameters = parameters.collect::<Vec<String>>().join(", ");
    let result = match result {
        "void" => String::new(),
        _ => format!(" -> {}", kind(result)),
    };
    (name, format!("extern \"C\" fn({parameters}){result}"))
}

/// The Rust type of a C++ type.
fn kind(cpp: &str) -> String {
    if let Some(target) = cpp.strip_suffix('*') {
        if let Some(constant) = target.strip_suffix(" const") {
            return format!("*const {}", kind(constant));
        }
        return match target.strip_prefix("const ") {
            Some(constant) if !target.ends_with('*') => format!("*const {}", kind(constant)),
            _ => format!("*mut {}", kind(target)),
        };
    }
    let rust = match cpp {
        "void" => "c_void",
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
