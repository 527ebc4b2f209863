//! `report`: writes all figures on one HTML page that needs no network, with a small filter that
//! the reader can try.
//!
//! The page only shows values that were computed here. The bits that a word sets are read from a
//! filter of this crate into which the word was inserted. The number of keys that a size can hold
//! comes from `math::textbook`. The script only merges, compares and draws.

use std::fmt::Write as _;
use std::path::PathBuf;

use lsm_sieve_classics::filter::{Kind, Shape, Stage};
use lsm_sieve_classics::math::textbook;
use lsm_sieve_classics::math::{Bits, Items, Probes, Rate, fill, standard};
use lsm_sieve_cli::workload::report::Tabular;
use lsm_sieve_filter::hash::{HashId, KeyHasher, Seed};
use lsm_sieve_lab::chart::style_sheet;
use serde::Serialize;

use crate::figures::{self, Figure};
use crate::outcome::Stop;
use crate::output::Output;
use crate::output_file::{OutputFile, create_folder};

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab report .
  lsm-sieve-lab report /tmp/figures --json

Writes DIR/report.html and replaces an existing one.";

/// Write one HTML page with every figure, a small filter to try and a sizing graph.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The folder for report.html; created if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let folder = &arguments.folder;
    create_folder(folder)?;
    let file = folder.join("report.html");
    let destination = OutputFile::new(&file)?;
    let figures = figures::all();
    let page = page(&figures)?;
    destination.write(page.as_bytes())?;
    output.print(&Written {
        file: file.display().to_string(),
        figures: figures.len(),
        bytes: page.len(),
    })
}

#[derive(Serialize)]
struct Written {
    file: String,
    figures: usize,
    bytes: usize,
}

impl Tabular for Written {
    fn head(&self) -> Vec<String> {
        vec![self.file.clone(), String::new()]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        vec![
            vec!["figures".to_owned(), self.figures.to_string()],
            vec!["bytes".to_owned(), self.bytes.to_string()],
        ]
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            ("figures", "on the page"),
            ("bytes", "of the page, which needs no other file"),
        ]
    }
}

const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/style.css");
const SCRIPT: &str = include_str!("report/script.js");

fn page(figures: &[Figure]) -> Result<String, Stop> {
    let data = Data {
        filter: SmallFilter::compute()?,
        sizing: Sizing::compute()?,
    };
    let fill = [
        ("{{style}}", format!("{STYLE}{}", style_sheet())),
        ("{{version}}", env!("CARGO_PKG_VERSION").to_owned()),
        ("{{contents}}", figures.iter().map(entry).collect()),
        ("{{bits}}", BITS.to_string()),
        ("{{probes}}", PROBES.to_string()),
        ("{{figures}}", figures.iter().map(section).collect()),
        ("{{data}}", serde_json::to_string(&data)?),
        ("{{script}}", SCRIPT.to_owned()),
    ];
    let page = fill.iter().fold(PAGE.to_owned(), |page, (hole, text)| {
        page.replace(hole, text)
    });
    Ok(page)
}

/// A line of the table of contents.
fn entry(figure: &Figure) -> String {
    let name = figure.name.text();
    format!(
        "<a href=\"#{name}\">{}</a>\n",
        escaped(figure.chart.title())
    )
}

fn section(figure: &Figure) -> String {
    let (name, chart) = (figure.name.text(), figure.chart.inline_svg());
    let (source, reading) = (escaped(figure.source), escaped(figure.reading));
    let title = escaped(figure.chart.title());
    format!(
        "<section id=\"{name}\">\n<h2>{title}</h2>\n<figure>\n{chart}\
         <figcaption><p>{reading}</p><p>{source}.</p></figcaption>\n</figure>\n\
         <details><summary>Numbers</summary>{}</details>\n</section>\n",
        html_table(figure)
    )
}

fn html_table(report: &dyn Tabular) -> String {
    let row = |cells: Vec<String>, tag: &str| {
        let cells = cells.iter().fold(String::new(), |mut row, cell| {
            // Writing to a string cannot fail.
            let _ = write!(row, "<{tag}>{}</{tag}>", escaped(cell));
            row
        });
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = report
        .rows()
        .into_iter()
        .map(|cells| row(cells, "td"))
        .collect();
    format!("<table>\n{}{rows}</table>", row(report.head(), "th"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The data that the script shows.
#[derive(Serialize)]
struct Data {
    filter: SmallFilter,
    sizing: Sizing,
}

const BITS: Bits = Bits::new(64);
const PROBES: Probes = Probes::new(3);

/// The words that the reader can insert, one per line.
const WORDS: &str = include_str!("report/words.txt");

/// A filter that is small enough to see.
#[derive(Serialize)]
struct SmallFilter {
    bits: u64,
    words: Vec<Word>,
    /// The false-positive rate, by the number of set bits.
    rates: Vec<f64>,
}

#[derive(Serialize)]
struct Word {
    word: &'static str,
    /// The positions of its bits.
    bits: Vec<u64>,
}

impl SmallFilter {
    fn compute() -> Result<Self, Stop> {
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([0; 16]));
        let words = WORDS.lines().map(|word| {
            let shape = Shape {
                kind: Kind::Standard,
                bits: BITS,
                probes: PROBES,
                groups: 0,
            };
            let filter = Stage::new(shape)?;
            filter.insert(hasher.hash(word.as_bytes()));
            Ok(Word {
                word,
                bits: set_bits(&filter),
            })
        });
        let rate = |set: u64| fill::matching(set as f64 / BITS.get() as f64, PROBES);
        Ok(Self {
            bits: BITS.get(),
            words: words.collect::<Result<_, Stop>>()?,
            rates: (0..=BITS.get()).map(rate).collect(),
        })
    }
}

/// The positions of the bits that are set.
fn set_bits(filter: &Stage) -> Vec<u64> {
    let words = (0..).step_by(64).zip(filter.words());
    words
        .flat_map(|(first, word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| first + bit)
        })
        .collect()
}

/// How many keys a filter holds, for each choice of bits, probes and false-positive rate.
#[derive(Serialize)]
struct Sizing {
    /// The sizes as text.
    sizes: Vec<String>,
    probes: Vec<u32>,
    rates: Vec<RateChoice>,
    /// The number of keys, by size, probes and rate.
    items: Vec<Vec<Vec<u64>>>,
    /// By size and probes: the number of keys for which this number of probes is best.
    best_items: Vec<Vec<u64>>,
    /// By size: the number of keys at the right end of the curve.
    most_items: Vec<u64>,
    /// By probes: points (share of the most keys, rate). They are the same for all but tiny sizes.
    curves: Vec<Vec<(f64, f64)>>,
}

#[derive(Serialize)]
struct RateChoice {
    text: String,
}

/// The curve ends at two bits per key.
const LEAST_BITS_A_KEY: u64 = 2;
const CURVE_POINTS: u64 = 60;

impl Sizing {
    fn compute() -> Result<Self, Stop> {
        let sizes: Vec<Bits> = (10..=36)
            .step_by(2)
            .map(|power| Bits::new(1 << power))
            .collect();
        let probes: Vec<Probes> = (1..=20).map(Probes::new).collect();
        let rates = (1..=8)
            .map(|power| Rate::new(10_f64.powi(-power)))
            .collect::<Result<Vec<_>, _>>()?;
        let items = |m, k| {
            rates
                .iter()
                .map(|&p| textbook::items(m, k, p).get())
                .collect()
        };
        let best = |m, k| textbook::best_items(m, k).get();
        let most = |m: &Bits| m.get() / LEAST_BITS_A_KEY;
        Ok(Self {
            items: by_size_and_probes(&sizes, &probes, items),
            best_items: by_size_and_probes(&sizes, &probes, best),
            most_items: sizes.iter().map(most).collect(),
            curves: probes.iter().map(|&k| curve(k)).collect(),
            sizes: sizes.iter().map(|&m| memory(m)).collect(),
            probes: probes.iter().map(|k| k.get()).collect(),
            rates: rates
                .iter()
                .map(|p| RateChoice {
                    text: format!("{} %", p.get() * 100.0),
                })
                .collect(),
        })
    }
}

fn by_size_and_probes<T>(
    sizes: &[Bits],
    probes: &[Probes],
    of: impl Fn(Bits, Probes) -> T,
) -> Vec<Vec<T>> {
    let row = |&m: &Bits| probes.iter().map(|&k| of(m, k)).collect();
    sizes.iter().map(row).collect()
}

fn curve(probes: Probes) -> Vec<(f64, f64)> {
    let bits = Bits::new(LEAST_BITS_A_KEY * CURVE_POINTS * 1_000_000);
    let point = |step: u64| {
        let rate = standard::rate_asymptotic(bits, probes, Items::new(step * 1_000_000));
        (step as f64 / CURVE_POINTS as f64, rate)
    };
    (0..=CURVE_POINTS).map(point).collect()
}

/// The size in the unit that gives a short number.
fn memory(bits: Bits) -> String {
    let bytes = bits.get() / 8;
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page shows the crate's filter: the union of the words' bits answers as the filter does.
    #[test]
    fn the_words_bits_are_those_of_the_filter() {
        let small = SmallFilter::compute().unwrap_or_else(|_| panic!("64 bits fit into memory"));
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([0; 16]));
        let shape = Shape {
            kind: Kind::Standard,
            bits: BITS,
            probes: PROBES,
            groups: 0,
        };
        let filter = Stage::new(shape).unwrap();
        let mut set = Vec::new();
        for word in small.words.iter().take(8) {
            filter.insert(hasher.hash(word.word.as_bytes()));
            set.extend(&word.bits);
        }
        let mut false_positives = 0;
        for (index, word) in small.words.iter().enumerate() {
            let shown = word.bits.iter().all(|bit| set.contains(bit));
            assert_eq!(shown, filter.may_contain(hasher.hash(word.word.as_bytes())));
            false_positives += usize::from(shown && index >= 8);
        }
        assert!(false_positives > 0, "the page is to show one");
    }

    #[test]
    fn a_page_has_no_hole_left() {
        let page = page(&[]).unwrap_or_else(|_| panic!("a page without figures can be made"));
        assert!(!page.contains("{{"), "{page}");
    }
}
