//! Line charts, as SVG text and as PNG bytes.
//!
//! ```text
//! Chart ---> [draw] ---> SVG whose parts are named by class ---> a style sheet [palette] ---> page
//!   ^                                                        '-> one ground, [raster] ------> PNG
//!   '- axes [scale]: data -> place, ticks
//! ```
//!
//! The drawing has no colours: its parts have classes such as *grid*, *ink* and *series 2*, and a
//! style sheet defines their colours on a light and on a dark ground. A page with many inline
//! charts needs [`style_sheet`] only once.
//!
//! A chart is 420 units wide with text of 12 units, so that it can be read at the width of a phone.
//! The legend is below the plot, where it covers nothing. Series differ by dash and mark as well as
//! by colour. PNG text is set in DejaVu Sans, which is compiled in, so a PNG is the same on every
//! machine.

mod draw;
mod palette;
mod raster;
mod scale;

pub use palette::{Ground, style_sheet};
pub use raster::PngError;

/// A line chart: series over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

impl Chart {
    /// A chart without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
        }
    }

    /// Adds a series. The order determines the colours and the legend.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// The title above the plot.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The horizontal axis.
    pub fn x(&self) -> &Axis {
        &self.x
    }

    /// The vertical axis.
    pub fn y(&self) -> &Axis {
        &self.y
    }

    /// The series, in the order they were added.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The drawing alone, for a page that includes [`style_sheet`].
    pub fn inline_svg(&self) -> String {
        draw::svg(self, "")
    }

    /// A standalone SVG file, which follows the reader's light or dark mode.
    pub fn svg(&self) -> String {
        draw::svg(self, &style_sheet())
    }

    /// A standalone SVG file on one ground, for a page that chooses between two files.
    pub fn svg_on(&self, ground: Ground) -> String {
        draw::svg(self, &ground.rules())
    }

    /// A PNG of 840 pixels' width, two pixels per unit.
    ///
    /// # Errors
    /// If the drawing cannot be rasterised, which no data should cause.
    pub fn png(&self, ground: Ground) -> Result<Vec<u8>, PngError> {
        raster::png(&self.svg_on(ground))
    }
}

/// The label, scale and range of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    label: String,
    scale: Scale,
    include: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
}

impl Axis {
    /// A linear axis: equal differences have equal lengths.
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Linear,
            include: None,
        }
    }

    /// A logarithmic axis: equal ratios have equal lengths. Values that are not positive are not
    /// drawn.
    pub fn log(label: impl Into<String>) -> Self {
        Self {
            scale: Scale::Log,
            ..Self::linear(label)
        }
    }

    /// Extends the axis to this value.
    #[must_use]
    pub fn including(mut self, value: f64) -> Self {
        self.include = Some(value);
        self
    }

    /// The label: what the axis measures, with its unit.
    pub fn label(&self) -> &str {
        &self.label
    }
}

/// A named sequence of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    name: String,
    style: Style,
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Line,
    Marks,
    LineAndMarks,
}

impl Series {
    /// Points joined by a line.
    pub fn line<P: Into<Point>>(
        name: impl Into<String>,
        points: impl IntoIterator<Item = P>,
    ) -> Self {
        Self::styled(Style::Line, name.into(), points)
    }

    /// A mark at every point.
    pub fn marks<P: Into<Point>>(
        name: impl Into<String>,
        points: impl IntoIterator<Item = P>,
    ) -> Self {
        Self::styled(Style::Marks, name.into(), points)
    }

    /// Points joined by a line, with a mark at every point.
    pub fn line_and_marks<P: Into<Point>>(
        name: impl Into<String>,
        points: impl IntoIterator<Item = P>,
    ) -> Self {
        Self::styled(Style::LineAndMarks, name.into(), points)
    }

    fn styled<P: Into<Point>>(
        style: Style,
        name: String,
        points: impl IntoIterator<Item = P>,
    ) -> Self {
        Self {
            name,
            style,
            points: points.into_iter().map(Into::into).collect(),
        }
    }

    /// The name in the legend.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The points, in the order in which they are joined.
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}

/// A point, whose y is known to within `error`. A point that is not finite leaves a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The position on the horizontal axis.
    pub x: f64,
    /// The value on the vertical axis.
    pub y: f64,
    /// Half the length of the error bar; `None` for no bar.
    pub error: Option<f64>,
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self { x, y, error: None }
    }
}

impl From<(f64, f64, f64)> for Point {
    fn from((x, y, error): (f64, f64, f64)) -> Self {
        let error = Some(error);
        Self { x, y, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Chart {
        Chart::new(
            "rate & size",
            Axis::log("bits <n>"),
            Axis::linear("rate").including(0.0),
        )
        .with(Series::line("theory", [(10.0, 1.0), (1_000.0, 3.0)]))
        .with(Series::marks(
            "measured",
            [(10.0, 1.1, 0.2), (100.0, 2.0, 0.1)],
        ))
    }

    #[test]
    fn a_chart_is_well_formed_and_says_what_it_shows() {
        for text in [sample().svg(), sample().inline_svg()] {
            let tree = resvg::usvg::roxmltree::Document::parse(&text).unwrap();
            assert_eq!(tree.root_element().tag_name().name(), "svg");
            for said in ["rate & size", "bits <n>", "theory", "measured"] {
                let says = |node: resvg::usvg::roxmltree::Node<'_, '_>| node.text() == Some(said);
                assert!(tree.descendants().any(says), "{said}");
            }
        }
    }

    #[test]
    fn a_drawing_holds_no_colour_and_a_file_holds_both_grounds() {
        assert!(!sample().inline_svg().contains("<style"));
        assert!(sample().svg().contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn svg_on_one_ground_has_the_colours_of_that_ground_alone() {
        let [light, dark] = [Ground::Light, Ground::Dark].map(|ground| sample().svg_on(ground));
        for file in [&light, &dark] {
            assert!(!file.contains("prefers-color-scheme"));
        }
        let (of_light, of_dark) = (Ground::Light.rules(), Ground::Dark.rules());
        assert!(light.contains(&of_light) && !light.contains(&of_dark));
        assert!(dark.contains(&of_dark) && !dark.contains(&of_light));
    }

    #[test]
    fn every_point_and_every_error_bar_is_drawn() {
        let text = sample().inline_svg();
        assert_eq!(
            text.matches("chart-mark").count(),
            3,
            "two points and the legend"
        );
        assert_eq!(text.matches("chart-error").count(), 2);
    }

    #[test]
    fn what_cannot_be_placed_leaves_a_gap() {
        let chart = Chart::new("", Axis::linear(""), Axis::log(""));
        let points = [
            (0.0, 1.0),
            (1.0, 2.0),
            (2.0, 0.0),
            (3.0, f64::NAN),
            (4.0, 5.0),
            (5.0, 6.0),
        ];
        let text = chart.with(Series::line("broken", points)).inline_svg();
        let line = text
            .lines()
            .find(|line| line.contains("chart-line"))
            .unwrap();
        assert_eq!(line.matches('M').count(), 2, "{line}");
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn a_chart_without_points_is_still_a_picture() {
        let empty = Chart::new("empty", Axis::log("x"), Axis::linear("y"));
        assert!(empty.png(Ground::Light).unwrap().starts_with(b"\x89PNG"));
    }

    /// Reads width and height from the first block of a PNG.
    #[test]
    fn pictures_differ_by_ground_and_have_twice_the_units() {
        let light = sample().png(Ground::Light).unwrap();
        let dark = sample().png(Ground::Dark).unwrap();
        assert_ne!(light, dark);
        assert_eq!(light[16..20], 840_u32.to_be_bytes());
    }

    /// Without a font, text would be missing from the picture and no error would be reported.
    #[test]
    fn words_reach_the_picture() {
        let titled = |title| Chart::new(title, Axis::linear(""), Axis::linear(""));
        let without = titled("").png(Ground::Light).unwrap();
        assert_ne!(without, titled("10⁻³ — ½").png(Ground::Light).unwrap());
    }
}
