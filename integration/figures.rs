//! The tables and figures of the literature, printed and as files.

use std::fs;

use resvg::usvg::roxmltree::Document;

use crate::cli::{is_refused, json, succeeds};

/// What `model` knows and `report` shows.
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
fn without_a_name_there_is_a_list_of_all_figures() {
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
fn a_figure_that_cannot_be_is_one_line_and_exit_code_2() {
    let home = tempfile::tempdir().unwrap();
    let nowhere = home.path().join("none/f.svg");
    for arguments in [
        &["model", "fig7"][..],
        &["model", "--svg", "f.svg"],
        &["model", "fig1", "--dark"],
        &["model", "fig1", "--svg", nowhere.to_str().unwrap()],
        &["model", "fig1", "--csv", ".."],
    ] {
        is_refused(arguments);
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
