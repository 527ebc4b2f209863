//! Draws a chart as SVG text.
//!
//! ```text
//! title
//! 66 | plot                      | 14
//!    '---------------------------'
//!      tick labels, axis label
//!      legend, in as many rows as it needs
//! ```

use std::fmt::Write as _;

use super::palette::SERIES;
use super::scale::{self, Range};
use super::{Chart, Point, Series, Style};

const WIDTH: f64 = 420.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = TOP + 220.0;
const LEGEND: f64 = BOTTOM + 56.0;
const ROW: f64 = 18.0;
const MARGIN: f64 = 8.0;

/// Width of the sample line before a name in the legend.
const SAMPLE: f64 = 28.0;

/// Mean width of a letter of the legend. Fonts differ, so it is rather too wide.
const LETTER: f64 = 6.9;

/// The shapes of marks, by series, centred on the origin.
const MARKS: [&str; SERIES] = [
    "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0Z",
    "M-3-3H3V3H-3Z",
    "M0-3.8L3.6 2.8H-3.6Z",
    "M0-4L4 0L0 4L-4 0Z",
    "M0 3.8L3.6-2.8H-3.6Z",
    "M-3.5-1H-1V-3.5H1V-1H3.5V1H1V3.5H-1V1H-3.5Z",
];

/// The whole drawing. `style` is included unless it is empty.
pub(super) fn svg(chart: &Chart, style: &str) -> String {
    let drawing = Drawing::new(chart);
    let rows = drawing.legend_rows();
    let height = LEGEND + ROW * rows.len() as f64 + MARGIN - ROW / 2.0;
    let title = escaped(&chart.title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" \
         font-size=\"12\">\n<title>{title}</title>\n"
    );
    if !style.is_empty() {
        line(&mut out, format_args!("<style>\n{style}</style>"));
    }
    line(
        &mut out,
        format_args!("<rect class=\"chart-ground\" width=\"{WIDTH}\" height=\"{height}\"/>"),
    );
    drawing.grid(&mut out);
    drawing.frame(&mut out);
    for (index, series) in chart.series.iter().enumerate() {
        drawing.series(&mut out, index, series);
    }
    drawing.legend(&mut out, &rows);
    out.push_str("</svg>\n");
    out
}

/// A chart whose ranges are known.
struct Drawing<'a> {
    chart: &'a Chart,
    x: Range,
    y: Range,
}

impl<'a> Drawing<'a> {
    fn new(chart: &'a Chart) -> Self {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        Self {
            chart,
            x: Range::of(&chart.x, points().map(|point| point.x)),
            y: Range::of(&chart.y, points().flat_map(reach)),
        }
    }

    /// The position of a point on the page.
    fn place(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.place_x(x)?, self.place_y(y)?))
    }

    fn place_x(&self, x: f64) -> Option<f64> {
        self.x.share(x).map(|share| LEFT + share * (RIGHT - LEFT))
    }

    fn place_y(&self, y: f64) -> Option<f64> {
        self.y.share(y).map(|share| BOTTOM - share * (BOTTOM - TOP))
    }

    /// Draws a line and a label for every tick.
    fn grid(&self, out: &mut String) {
        let grid = |out: &mut String, path: String| {
            line(
                out,
                format_args!("<path class=\"chart-grid\" d=\"{path}\"/>"),
            );
        };
        for tick in self.x.ticks() {
            if let Some(x) = self.place_x(tick) {
                grid(out, format!("M{x:.1} {TOP}V{BOTTOM}"));
                text(out, (x, BOTTOM + 16.0), "middle", &scale::label(tick));
            }
        }
        for tick in self.y.ticks() {
            if let Some(y) = self.place_y(tick) {
                grid(out, format!("M{LEFT} {y:.1}H{RIGHT}"));
                text(out, (LEFT - 5.0, y + 4.0), "end", &scale::label(tick));
            }
        }
    }

    /// Draws the axes with their labels, and the title.
    fn frame(&self, out: &mut String) {
        let path = format!("M{LEFT} {TOP}V{BOTTOM}H{RIGHT}");
        line(
            out,
            format_args!("<path class=\"chart-axis\" d=\"{path}\"/>"),
        );
        let middle = (LEFT + RIGHT) / 2.0;
        text(out, (middle, BOTTOM + 34.0), "middle", &self.chart.x.label);
        let (across, down) = (13.0, (TOP + BOTTOM) / 2.0);
        let label = escaped(&self.chart.y.label);
        line(
            out,
            format_args!(
                "<text class=\"chart-ink\" text-anchor=\"middle\" \
                 transform=\"translate({across} {down}) rotate(-90)\">{label}</text>"
            ),
        );
        let title = escaped(&self.chart.title);
        line(
            out,
            format_args!(
                "<text class=\"chart-ink chart-title\" x=\"{MARGIN}\" y=\"20\" font-size=\"13\" \
                 font-weight=\"bold\">{title}</text>"
            ),
        );
    }

    fn series(&self, out: &mut String, index: usize, series: &Series) {
        let colour = index % SERIES;
        if series.style != Style::Marks {
            let path = self.path(&series.points);
            if !path.is_empty() {
                stroke(out, colour, &path);
            }
        }
        for point in &series.points {
            let Some(at) = self.place(point.x, point.y) else {
                continue;
            };
            self.error_bar(out, colour, point, at.0);
            if series.style != Style::Line {
                mark(out, colour, at);
            }
        }
    }

    /// Draws the line through all points, with a gap at points that have no position.
    fn path(&self, points: &[Point]) -> String {
        let mut path = String::new();
        let mut pen = 'M';
        for point in points {
            let Some((x, y)) = self.place(point.x, point.y) else {
                pen = 'M';
                continue;
            };
            push(&mut path, format_args!("{pen}{x:.1} {y:.1}"));
            pen = 'L';
        }
        path
    }

    /// Draws the error bars. An end that has no position is drawn at the axis.
    fn error_bar(&self, out: &mut String, colour: usize, point: &Point, x: f64) {
        let Some(error) = point.error else { return };
        let low = self.place_y(point.y - error).unwrap_or(BOTTOM);
        let high = self.place_y(point.y + error).unwrap_or(BOTTOM);
        let (left, right) = (x - 3.0, x + 3.0);
        line(
            out,
            format_args!(
                "<path class=\"chart-error chart-{colour}\" d=\"M{x:.1} {low:.1}V{high:.1}\
                 M{left:.1} {low:.1}H{right:.1}M{left:.1} {high:.1}H{right:.1}\"/>"
            ),
        );
    }

    /// The series in each row of the legend, with the position where each begins.
    fn legend_rows(&self) -> Vec<Vec<(f64, usize)>> {
        let mut rows: Vec<Vec<(f64, usize)>> = Vec::new();
        let mut at = f64::INFINITY;
        for (index, series) in self.chart.series.iter().enumerate() {
            let width = SAMPLE + LETTER * series.name.chars().count() as f64 + MARGIN;
            if at + width > WIDTH {
                rows.push(Vec::new());
                at = MARGIN;
            }
            if let Some(row) = rows.last_mut() {
                row.push((at, index));
            }
            at += width;
        }
        rows
    }

    fn legend(&self, out: &mut String, rows: &[Vec<(f64, usize)>]) {
        for (row, entries) in rows.iter().enumerate() {
            let y = LEGEND + ROW * row as f64;
            for &(x, index) in entries {
                let (series, colour) = (&self.chart.series[index], index % SERIES);
                if series.style != Style::Marks {
                    stroke(out, colour, &format!("M{x:.1} {y}h22"));
                }
                if series.style != Style::Line {
                    mark(out, colour, (x + 11.0, y));
                }
                text(out, (x + SAMPLE, y + 4.0), "start", &series.name);
            }
        }
    }
}

/// The values of a point that the vertical axis must include.
fn reach(point: &Point) -> [f64; 3] {
    let error = point.error.unwrap_or(0.0);
    [point.y - error, point.y, point.y + error]
}

fn stroke(out: &mut String, colour: usize, path: &str) {
    line(
        out,
        format_args!(
            "<path class=\"chart-line chart-{colour}\" stroke-width=\"1.8\" d=\"{path}\"/>"
        ),
    );
}

fn mark(out: &mut String, colour: usize, (x, y): (f64, f64)) {
    let shape = MARKS[colour];
    line(
        out,
        format_args!(
            "<path class=\"chart-mark chart-{colour}\" transform=\"translate({x:.1} {y:.1})\" \
             d=\"{shape}\"/>"
        ),
    );
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = escaped(words);
    line(
        out,
        format_args!(
            "<text class=\"chart-ink\" x=\"{x:.1}\" y=\"{y:.1}\" \
             text-anchor=\"{anchor}\">{words}</text>"
        ),
    );
}

fn line(out: &mut String, content: std::fmt::Arguments<'_>) {
    push(out, content);
    out.push('\n');
}

fn push(out: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(content);
}

fn escaped(words: &str) -> String {
    words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
