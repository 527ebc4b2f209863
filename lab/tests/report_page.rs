//! The page of all figures, as a reader and a browser see it.
//!
//! The test in a browser needs chromium or chrome in the path, and is skipped with a message
//! without it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the page under test is written past the door to files"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use resvg::usvg::roxmltree::{Document, ParsingOptions};
use serde_json::Value;

use crate::figures::FIGURES;
use crate::runner::{is_refused, json};
use crate::support::requirements::skip;

/// Writes the page and returns its path.
fn report(home: &Path) -> PathBuf {
    let written = json(&["report", home.to_str().unwrap()]);
    assert_eq!(written["figures"], FIGURES.len());
    PathBuf::from(written["file"].as_str().unwrap())
}

/// The page without the content of its scripts, which is no markup.
fn without_scripts(page: &str) -> String {
    let mut parts = page.split("<script");
    let mut markup = parts.next().unwrap().to_owned();
    for part in parts {
        markup.push_str(part.split_once("</script>").unwrap().1);
    }
    markup
}

#[test]
fn page_is_well_formed_complete_and_self_contained() {
    let home = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(report(home.path())).unwrap();
    let markup = without_scripts(&page);
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let tree = Document::parse_with_options(&markup, options).unwrap();
    let nodes = || tree.descendants().filter(|node| node.is_element());
    let ids: Vec<_> = nodes().filter_map(|node| node.attribute("id")).collect();
    for id in FIGURES
        .into_iter()
        .chain(["bits", "words", "m", "k", "p", "n"])
    {
        assert_eq!(ids.iter().filter(|found| **found == id).count(), 1, "{id}");
    }
    let charts = nodes().filter(|node| node.tag_name().name() == "figure");
    assert_eq!(charts.count(), FIGURES.len());
    for node in nodes() {
        for link in ["src", "href", "data"]
            .iter()
            .filter_map(|name| node.attribute(*name))
        {
            assert!(link.starts_with('#') && ids.contains(&&link[1..]), "{link}");
        }
    }
    let addresses = page.replace("http://www.w3.org/2000/svg", "");
    assert!(
        !addresses.contains("http")
            && !addresses.contains("url(")
            && !addresses.contains("@import")
    );
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=\"viewport\""));
}

#[test]
fn page_without_a_folder_exits_with_2_and_one_line() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "in the way").unwrap();
    is_refused(&["report"]);
    is_refused(&["report", file.to_str().unwrap()]);
    is_refused(&["report", file.join("folder").to_str().unwrap()]);
    fs::create_dir(home.path().join("report.html")).unwrap();
    is_refused(&["report", home.path().to_str().unwrap()]);
}

/// A headless browser; without one the test is skipped.
fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut paths = std::env::split_paths(&folders).flat_map(|f| names.map(|name| f.join(name)));
    let found = paths.find(|path| path.is_file());
    if found.is_none() {
        skip("no chromium or chrome in the path");
    }
    found
}

/// Presses the controls as a reader would, and stores what was seen in an element of its own.
const READER: &str = r#"<script>
{
  const seen = { answers: [], errors: [] };
  const press = (word) => {
    [...at("words").children].find((button) => button.textContent === word).click();
    seen.answers.push(at("filter_answer").textContent);
  };
  const words = [...at("words").children].map((button) => button.textContent);
  seen.words = words;
  words.slice(0, 8).forEach(press);
  seen.set = document.querySelectorAll(".bit.set").length;
  at("look").click();
  words.forEach(press);
  at("clear").click();
  seen.cleared = document.querySelectorAll(".bit.set").length;
  seen.keys = at("n").textContent;
  at("m").value = 0; at("k").value = 6; at("p").value = 1;
  at("m").dispatchEvent(new Event("input"));
  seen.few = at("n").textContent;
  seen.curve = at("curve-line").getAttribute("d").length;
  seen.charts = [...document.querySelectorAll("svg.chart")].map((chart) => chart.getBoundingClientRect().width);
  seen.wide = document.documentElement.scrollWidth > window.innerWidth;
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
}
</script>
"#;

/// The JSON that the page's scripts left in its element `seen` after it was loaded.
fn seen_by(browser: &Path, file: &Path) -> Value {
    let profile = file.with_extension("profile");
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=500,800",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let dom = String::from_utf8(output.stdout).unwrap();
    let seen = dom
        .split("<pre id=\"seen\">")
        .nth(1)
        .and_then(|rest| rest.split("</pre>").next());
    serde_json::from_str(seen.expect("the page's scripts ran to their end")).unwrap()
}

#[test]
fn browser_shows_the_page_and_its_filter_answers() {
    let Some(browser) = browser() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let file = report(home.path());
    let page = fs::read_to_string(&file).unwrap();
    fs::write(&file, page.replace("</body>", &format!("{READER}</body>"))).unwrap();
    let seen = seen_by(&browser, &file);
    let answers: Vec<&str> = seen["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a.as_str().unwrap())
        .collect();
    let (inserted, looked) = answers.split_at(8);
    assert!(
        inserted.iter().all(|answer| answer.ends_with(" inserted.")),
        "{inserted:?}"
    );
    assert!(
        looked[..8]
            .iter()
            .all(|answer| answer.contains("maybe (it is in)")),
        "{looked:?}"
    );
    let others = &looked[8..];
    assert!(
        others.iter().any(|answer| answer.ends_with("absent.")),
        "{others:?}"
    );
    assert!(
        others
            .iter()
            .any(|answer| answer.contains("a false positive")),
        "{others:?}"
    );
    assert!((8..=24).contains(&seen["set"].as_u64().unwrap()), "{seen}");
    assert_eq!(seen["cleared"], 0);
    // 1,024 bits, 7 probes, 1 %: 1,024/7 × −ln(1 − 0.01^(1/7)) = 106.7.
    assert_eq!(seen["few"], "106");
    assert_ne!(seen["keys"], seen["few"]);
    assert!(seen["curve"].as_u64().unwrap() > 100);
    let charts = seen["charts"].as_array().unwrap();
    assert_eq!(charts.len(), FIGURES.len() + 1);
    assert!(
        charts.iter().all(|width| width.as_f64().unwrap() > 300.0),
        "{charts:?}"
    );
    assert_eq!(seen["wide"], false, "nothing reaches beyond the window");
}

/// Shows the page in frames of a phone's width, which a window cannot have: one per color scheme,
/// set by the frame's own.
const PHONES: &str = r##"<script>
const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
const light = (colour) => {
  const [r, g, b] = channels(colour).slice(0, 3).map((c) => {
    const share = c / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [more, less] = [light(a), light(b)].sort((x, y) => y - x);
  return (more + 0.05) / (less + 0.05);
};
function look(frame, scheme) {
  const [view, page] = [frame.contentWindow, frame.contentDocument];
  const style = (selector) => view.getComputedStyle(page.querySelector(selector));
  const ground = style("body").backgroundColor;
  const chart = style(".chart-ground").fill;
  [1, 2].forEach(() => page.getElementById("more").click());
  const wrong = page.querySelectorAll("#words .wrong").length;
  return {
    scheme,
    dark: view.matchMedia("(prefers-color-scheme: dark)").matches,
    inner: view.innerWidth,
    scrolls: page.documentElement.scrollWidth,
    ground: light(ground),
    contrasts: {
      text: contrast(style("body").color, ground),
      mistake: contrast(style("#words .wrong").color, ground),
      chart: contrast(style(".chart-ink").fill, chart),
    },
    wrong,
    told: page.getElementById("wrong").textContent,
  };
}
const all = [];
for (const [width, scheme] of [[360, "light"], [360, "dark"]]) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 740px; border: 0; color-scheme: ${scheme}`;
  frame.addEventListener("load", () => {
    all.push(look(frame, scheme));
    document.getElementById("seen").textContent = JSON.stringify(all);
  });
  frame.srcdoc = page;
  document.body.append(frame);
}
</script>"##;

#[test]
fn page_fits_a_phone_in_light_and_dark() {
    let Some(browser) = browser() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(report(home.path())).unwrap();
    let page = serde_json::to_string(&page).unwrap().replace("</", "<\\/");
    let host = home.path().join("host.html");
    let text = format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"/><body><pre id=\"seen\"></pre>\
         <script>const page = {page};</script>{PHONES}</body>"
    );
    fs::write(&host, text).unwrap();
    let seen = seen_by(&browser, &host);
    println!("{seen}");
    let phones = seen.as_array().unwrap();
    assert_eq!(phones.len(), 2);
    for phone in phones {
        let dark = phone["scheme"] == "dark";
        assert_eq!(phone["dark"], dark, "{phone}");
        assert_eq!(phone["inner"], 360);
        let scrolls = phone["scrolls"].as_u64().unwrap();
        assert!(scrolls <= 360, "scrolls sideways: {phone}");
        assert_eq!(phone["ground"].as_f64().unwrap() < 0.2, dark, "{phone}");
        // The contrast that WCAG 2 requires of text.
        for (what, contrast) in phone["contrasts"].as_object().unwrap() {
            assert!(contrast.as_f64().unwrap() >= 4.5, "{what}: {phone}");
        }
        let (wrong, told) = (&phone["wrong"], phone["told"].as_str().unwrap());
        assert!(wrong.as_u64().unwrap() > 0, "{phone}");
        assert!(told.starts_with(&format!("False positives: {wrong} of the 248 others")));
    }
}
