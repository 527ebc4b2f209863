//! The tables and figures of the literature, printed and as files.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the files are those that the command must not lose"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use resvg::usvg::roxmltree::Document;

use crate::runner::{is_refused, json, succeeds};

/// The figures that `model` computes and `report` shows.
pub(crate) const FIGURES: [&str; 12] = [
    "table1",
    "fig1",
    "fig2",
    "fig3",
    "fig4",
    "fig5",
    "fig6",
    "grandi",
    "grandi-sparse",
    "mullin",
    "tightening",
    "compare",
];

#[test]
fn every_figure_is_printed_and_written_in_every_form() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (svg, png, csv) = (file("f.svg"), file("f.png"), file("f.csv"));
    for name in FIGURES {
        let drawn = ["model", name, "--svg", &svg, "--png", &png, "--csv", &csv];
        let figure = json(&drawn);
        assert_eq!(figure["figure"], name);
        let series = figure["series"].as_array().unwrap();
        let points: usize = series
            .iter()
            .map(|s| s["points"].as_array().unwrap().len())
            .sum();
        assert_eq!(
            fs::read_to_string(&csv).unwrap().lines().count(),
            points + 1,
            "{name}"
        );
        assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG"), "{name}");
        let text = fs::read_to_string(&svg).unwrap();
        let tree = Document::parse(&text).unwrap();
        let said: Vec<_> = tree.descendants().filter_map(|node| node.text()).collect();
        for series in series {
            let name = series["name"].as_str().unwrap();
            assert!(said.contains(&name), "{name} in the legend");
        }
    }
}

#[test]
fn figures_without_a_name_are_listed() {
    let listed = succeeds(&["model"]);
    for name in FIGURES {
        assert_eq!(listed.matches(&format!("│ {name} ")).count(), 1, "{listed}");
    }
    let all = json(&["model"]);
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), FIGURES.len());
    for (figure, name) in all.iter().zip(FIGURES) {
        assert_eq!(figure, &json(&["model", name]), "{name}");
    }
}

#[test]
fn table_1_prints_the_papers_numbers() {
    let text = succeeds(&["model", "table1"]);
    for printed in [
        "26214", "18232", "18724", "13674", "15420", "10939", "13107", "9116",
    ] {
        assert!(text.contains(printed), "{printed}: {text}");
    }
}

#[test]
fn impossible_figure_exits_with_2_and_one_line() {
    let home = tempfile::tempdir().unwrap();
    let nowhere = home.path().join("none/f.svg");
    let file = home.path().join("f.svg");
    let (folder, file) = (home.path().to_str().unwrap(), file.to_str().unwrap());
    let ends_in_a_slash = format!("{file}/");
    for arguments in [
        &["model", "fig7"][..],
        &["model", "--svg", "f.svg"],
        &["model", "fig1", "--dark"],
        &["model", "fig1", "--svg", nowhere.to_str().unwrap()],
        &["model", "fig1", "--csv", ".."],
        &["model", "fig1", "--svg", &ends_in_a_slash],
        &["model", "fig1", "--svg", file, "--csv", folder],
    ] {
        is_refused(arguments);
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

/// Runs the command under a umask.
fn under(umask: &str, arguments: &[&str]) {
    let output = Command::new("sh")
        .args(["-c", r#"umask "$0" && exec "$@""#, umask])
        .arg(crate::COMMAND)
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{umask} {arguments:?}: {said}");
}

/// In a folder that is writable by everybody, as `/tmp` is, and under every umask.
#[test]
fn figure_file_follows_the_umask() {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o777)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    for (umask, want) in [("002", 0o664), ("022", 0o644), ("077", 0o600)] {
        let svg = home.path().join(umask);
        let pages = home.path().join(format!("{umask}-pages"));
        under(umask, &["model", "fig6", "--svg", svg.to_str().unwrap()]);
        under(umask, &["report", pages.to_str().unwrap()]);
        assert_eq!(mode(&svg), want, "{umask}");
        assert_eq!(mode(&pages.join("report.html")), want, "{umask}");
        assert_eq!(fs::read_dir(&pages).unwrap().count(), 1, "{umask}");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 6);
    // Drawn again, it keeps its private mode.
    let private = home.path().join("077");
    let file = private.to_str().unwrap();
    under("022", &["model", "fig6", "--svg", file]);
    assert_eq!(mode(&private), 0o600);
}

/// A pipe cannot be replaced.
#[test]
fn figure_is_written_into_a_pipe() {
    let text = succeeds(&["model", "fig6", "--svg", "/proc/self/fd/1"]);
    assert!(text.starts_with("<svg"), "{text}");
    assert!(text.contains('│'), "the table comes after it");
}

/// The commands that write to a path of the user follow a link: the link stays, and its target is
/// replaced. A dangling link is refused.
#[test]
fn figures_and_pages_follow_a_symlink() {
    let home = tempfile::tempdir().unwrap();
    let behind = tempfile::tempdir().unwrap();
    let figure = home.path().join("figure.svg");
    let page = home.path().join("report.html");
    let links = [(&figure, "svg"), (&page, "html")];
    for (link, name) in links {
        let file = behind.path().join(name);
        fs::write(&file, b"old").unwrap();
        symlink(&file, link).unwrap();
    }
    let draw = ["model", "fig6", "--svg", figure.to_str().unwrap()];
    succeeds(&draw);
    succeeds(&["report", home.path().to_str().unwrap()]);
    for (link, name) in links {
        assert!(link.is_symlink(), "{}", link.display());
        assert!(fs::metadata(link).unwrap().len() > 1_000, "{name}");
    }
    assert_eq!(fs::read_dir(behind.path()).unwrap().count(), 2);
    fs::remove_file(behind.path().join("svg")).unwrap();
    is_refused(&draw);
    assert!(figure.is_symlink());
}
