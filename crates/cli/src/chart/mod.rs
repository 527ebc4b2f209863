//! Line charts, as SVG text and as PNG bytes.
//!
//! ```text
//! Chart ---> [draw] ---> SVG whose parts are named by class ---> a style sheet [palette] ---> page
//!   ^                                                        '-> one ground, [raster] ------> PNG
//!   '- axes [scale]: data -> place, ticks
//! ```
//!
//! The drawing holds no colour: it says *grid*, *ink*, *series 2*, and a style sheet says how these
//! look on light and on dark ground. A page that inlines many charts carries [`style_sheet`] once.
//!
//! A chart is 420 units wide with text of 12, so that it can be read at the width of a phone. The
//! legend stands below the plot, where it covers nothing. Series differ by dash and by mark as well
//! as by colour. PNG text is set in DejaVu Sans, which is compiled in: a picture is the same on
//! every machine.

mod draw;
mod palette;
mod raster;
mod scale;

pub use palette::{Ground, style_sheet};
pub use raster::PngError;

/// Series over two axes.
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

    /// Adds a series; the order decides colours and the legend.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// What stands above the plot.
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

    /// The drawing alone, for a page that carries [`style_sheet`].
    pub fn inline_svg(&self) -> String {
        draw::svg(self, "")
    }

    /// A file of its own, which follows the reader's choice of light or dark.
    pub fn svg(&self) -> String {
        draw::svg(self, &style_sheet())
    }

    /// A file of its own on one ground, for a page that chooses between two files.
    pub fn svg_on(&self, ground: Ground) -> String {
        draw::svg(self, &ground.rules())
    }

    /// A picture of 840 pixels' width: two for every unit.
    ///
    /// # Errors
    /// When the drawing cannot be rasterised, which no data should cause.
    pub fn png(&self, ground: Ground) -> Result<Vec<u8>, PngError> {
        raster::png(&self.svg_on(ground))
    }
}

/// What an axis measures, and how.
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
    /// Equal differences are equal lengths.
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            scale: Scale::Linear,
            include: None,
        }
    }

    /// Equal ratios are equal lengths; values that are not positive are not drawn.
    pub fn log(label: impl Into<String>) -> Self {
        Self {
            scale: Scale::Log,
            ..Self::linear(label)
        }
    }

    /// Stretches the axis as far as this value.
    #[must_use]
    pub fn including(mut self, value: f64) -> Self {
        self.include = Some(value);
        self
    }

    /// What it measures, with its unit.
    pub fn label(&self) -> &str {
        &self.label
    }
}

/// A named row of points.
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

    /// Both.
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

    /// What the legend calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its points, in the order they are joined.
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}

/// A value at a place, known up to `error` either way; one that is not finite leaves a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// How much.
    pub y: f64,
    /// Half the length of the error bar; `None` draws none.
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

    /// Width and height stand in the first block of a PNG.
    #[test]
    fn pictures_differ_by_ground_and_have_twice_the_units() {
        let light = sample().png(Ground::Light).unwrap();
        let dark = sample().png(Ground::Dark).unwrap();
        assert_ne!(light, dark);
        assert_eq!(light[16..20], 840_u32.to_be_bytes());
    }

    /// Without a font the words would be missing, and nothing would say so.
    #[test]
    fn words_reach_the_picture() {
        let titled = |title| Chart::new(title, Axis::linear(""), Axis::linear(""));
        let without = titled("").png(Ground::Light).unwrap();
        assert_ne!(without, titled("10⁻³ — ½").png(Ground::Light).unwrap());
    }
}
