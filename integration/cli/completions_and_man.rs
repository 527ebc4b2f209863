//! Completions and manual pages: complete, and read without complaint by the programs that they are for.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::runner::{ends_with_one_line, run, succeeds, text};
use crate::support::requirements::skip;

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

#[test]
fn completions_of_each_shell_name_commands_and_options() {
    for shell in SHELLS {
        let script = succeeds(&["completions", shell]);
        for word in ["inspect", "advise", "cache-mib", "explain"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    ends_with_one_line(
        &run(["completions", "tcsh"]),
        2,
        "a shell without completions",
    );
}

#[test]
fn shells_accept_their_completions() {
    for (shell, check) in [
        ("bash", &["-n"][..]),
        ("zsh", &["-n"]),
        ("fish", &["--no-execute"]),
    ] {
        let mut command = Command::new(shell);
        let started = command
            .args(check)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            skip(format_args!("{shell} is not installed"));
            continue;
        };
        let script = succeeds(&["completions", shell]);
        child
            .stdin
            .take()
            .unwrap()
            .write_all(script.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{shell}: {}", text(&output.stderr));
    }
}

/// Bash itself completes the first word.
#[test]
fn bash_completes_a_command() {
    let ask = "eval \"$0\"; COMP_WORDS=(lsm-sieve ver) COMP_CWORD=1; \
        complete=$(complete -p lsm-sieve); complete=${complete##*-F }; \
        ${complete%% *} lsm-sieve ver lsm-sieve; echo \"${COMPREPLY[@]}\"";
    let script = succeeds(&["completions", "bash"]);
    let Ok(output) = Command::new("bash").args(["-c", ask, &script]).output() else {
        skip("bash is not installed");
        return;
    };
    assert_eq!(
        text(&output.stdout).trim(),
        "verify",
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn each_command_has_a_manual_page() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("man1");
    let said = succeeds(&["man", folder.to_str().unwrap()]);
    let pages = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let pages: BTreeSet<_> = pages.map(|name| name.into_string().unwrap()).collect();
    for command in [
        "",
        "-advise",
        "-advise-front",
        "-replay",
        "-inspect",
        "-verify",
        "-man",
    ] {
        let page = format!("lsm-sieve{command}.1");
        assert!(
            pages.contains(&page) && said.contains(&page),
            "{page}: {pages:?}"
        );
    }
    let page = fs::read_to_string(folder.join("lsm-sieve-verify.1")).unwrap();
    for part in [".TH", "--full", "--filters", "--json", "Examples:"] {
        assert!(page.replace("\\-", "-").contains(part), "{part} in {page}");
    }
}
