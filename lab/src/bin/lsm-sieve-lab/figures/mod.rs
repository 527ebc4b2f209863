//! The figures of the literature, computed again: a chart, and a text that explains it.
//!
//! Every value comes from `lsm_sieve_filter::math`; a figure only chooses the points. The table under a
//! chart has the chart's own points, so that picture, CSV and JSON cannot disagree.

mod almeida;
mod compare;
mod grandi;
mod mullin;

use std::fmt::Write as _;

use clap::ValueEnum;
use lsm_sieve_cli::workload::report::Tabular;
use lsm_sieve_lab::chart::{Chart, Point, Series};
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

/// A chart with its name, its source and an explanation.
pub(crate) struct Figure {
    pub(crate) name: Name,
    pub(crate) source: &'static str,
    /// What the chart shows, and how it differs from the source.
    pub(crate) reading: &'static str,
    pub(crate) chart: Chart,
}

/// The names of all figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Capacities of a partitioned filter of 32 KB (Almeida, Table 1).
    Table1,
    /// Space as a function of the set's size (Almeida, Figure 1).
    Fig1,
    /// Space relative to a static filter as the set grows (Almeida, Figure 2).
    Fig2,
    /// Stages as a function of s (Almeida, Figure 3).
    Fig3,
    /// Average space as a function of s, for the best r (Almeida, Figure 4).
    Fig4,
    /// Space as the set grows, for several r and P (Almeida, Figure 5).
    Fig5,
    /// The best r as the set grows (Almeida, Figure 6).
    Fig6,
    /// Exact and approximate rates of 128 bits with 16 keys (Grandi, Figure 1, left).
    Grandi,
    /// The same with 8 keys (Grandi, Figure 1, right).
    GrandiSparse,
    /// Unnecessary searches of a differential file, by theory and as printed (Mullin, Gremillion).
    Mullin,
    /// Bits per key of a full stage, by how the rates are tightened.
    Tightening,
    /// Bits per key of each layout, by rate.
    Compare,
}

impl Name {
    pub(crate) fn figure(self) -> Figure {
        match self {
            Self::Table1 => almeida::table_1(),
            Self::Fig1 => almeida::figure_1(),
            Self::Fig2 => almeida::figure_2(),
            Self::Fig3 => almeida::figure_3(),
            Self::Fig4 => almeida::figure_4(),
            Self::Fig5 => almeida::figure_5(),
            Self::Fig6 => almeida::figure_6(),
            Self::Grandi => grandi::dense(),
            Self::GrandiSparse => grandi::sparse(),
            Self::Mullin => mullin::rates(),
            Self::Tightening => almeida::tightening(),
            Self::Compare => compare::layouts(),
        }
    }

    /// The figure's name on the command line.
    pub(crate) fn text(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Every figure, in the order of [`Name`].
pub(crate) fn all() -> Vec<Figure> {
    let names = Name::value_variants().iter();
    names.map(|name| name.figure()).collect()
}

/// The list of all figures, one per line.
#[derive(serde::Serialize)]
#[serde(transparent)]
pub(crate) struct Contents(pub(crate) Vec<Figure>);

impl Tabular for Contents {
    fn head(&self) -> Vec<String> {
        ["figure", "shows", "source"].map(str::to_owned).to_vec()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |figure: &Figure| {
            let (title, source) = (figure.chart.title(), figure.source);
            vec![figure.name.text(), title.to_owned(), source.to_owned()]
        };
        self.0.iter().map(row).collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            ("figure", "its name for `lsm-sieve-lab model`"),
            ("shows", "its title"),
            ("source", "the paper and where in it"),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let hint = "`lsm-sieve-lab model FIGURE` prints and plots one of them; `lsm-sieve-lab report DIR` \
                    writes all of them on one page.";
        vec![hint.to_owned()]
    }
}

impl Figure {
    /// One line per point: series, x, y.
    pub(crate) fn csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let (x, y) = (self.chart.x().label(), self.chart.y().label());
        let mut csv = format!("series,{},{}\n", quoted(x), quoted(y));
        for series in self.chart.series() {
            for Point { x, y, .. } in series.points() {
                // Writing to a string cannot fail.
                let _ = writeln!(csv, "{},{x},{y}", quoted(series.name()));
            }
        }
        csv
    }

    /// Every x of any series, in order.
    fn places(&self) -> Vec<f64> {
        let points = self.chart.series().iter().flat_map(Series::points);
        let mut places: Vec<f64> = points.map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }
}

impl Tabular for Figure {
    fn head(&self) -> Vec<String> {
        let series = self
            .chart
            .series()
            .iter()
            .map(|series| series.name().to_owned());
        std::iter::once(self.chart.x().label().to_owned())
            .chain(series)
            .collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |x: f64| {
            let values = self.chart.series().iter().map(|series| value_at(series, x));
            std::iter::once(figure(x)).chain(values).collect()
        };
        self.places().into_iter().map(row).collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (self.chart.title(), self.reading),
            ("columns", self.chart.y().label()),
            ("source", self.source),
        ]
    }
}

/// The value of a series at x: that of its last point there, since a step ends with it.
fn value_at(series: &Series, x: f64) -> String {
    let mut found = series.points().iter().rev().filter(|point| point.x == x);
    found
        .next()
        .map_or_else(String::new, |point| figure(point.y))
}

/// Formats a value with four significant digits, and a whole number without decimals.
fn figure(value: f64) -> String {
    let size = value.abs();
    if size >= 1e3 || value == value.round() {
        format!("{value:.0}")
    } else if size >= 1e-3 {
        let decimals = (3.0 - size.log10().floor()) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.3e}")
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Row<'a> {
            name: &'a str,
            points: Vec<[f64; 2]>,
        }
        let points = |series: &Series| series.points().iter().map(|p| [p.x, p.y]).collect();
        let series = self.chart.series().iter();
        let series = series.map(|series| Row {
            name: series.name(),
            points: points(series),
        });
        let mut figure = serializer.serialize_struct("Figure", 7)?;
        figure.serialize_field("figure", &self.name.text())?;
        figure.serialize_field("title", self.chart.title())?;
        figure.serialize_field("source", self.source)?;
        figure.serialize_field("reading", self.reading)?;
        figure.serialize_field("x", self.chart.x().label())?;
        figure.serialize_field("y", self.chart.y().label())?;
        figure.serialize_field("series", &series.collect::<Vec<_>>())?;
        figure.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_points_that_can_be_drawn() {
        for name in Name::value_variants() {
            let figure = name.figure();
            assert_eq!(figure.name, *name);
            assert!(figure.chart.series().len() >= 2, "{name:?}");
            for series in figure.chart.series() {
                let finite = |point: &Point| point.x.is_finite() && point.y.is_finite();
                assert!(series.points().len() >= 4, "{name:?}: {}", series.name());
                assert!(
                    series.points().iter().all(finite),
                    "{name:?}: {}",
                    series.name()
                );
            }
        }
    }

    #[test]
    fn every_point_is_in_the_csv() {
        for name in Name::value_variants() {
            let figure = name.figure();
            let points: usize = figure.chart.series().iter().map(|s| s.points().len()).sum();
            assert_eq!(figure.csv().lines().count(), points + 1, "{name:?}");
        }
    }

    #[test]
    fn figures_are_short() {
        let cases = [
            (0.5, "0.5000"),
            (128.0, "128"),
            (0.000_537_37, "5.374e-4"),
            (1_331.2, "1331"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text);
        }
    }
}
