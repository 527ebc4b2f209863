//! Colours: a ground, two inks, and six series that colour-blind readers can distinguish too.
//!
//! The hues are those of Okabe and Ito, darkened or lightened until each has a contrast of at least
//! 3 to 1 with its ground (WCAG 2.2, 1.4.11); a test checks it.

use std::fmt::Write as _;

/// The background of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Dark ink on white.
    Light,
    /// Light ink on near-black.
    Dark,
}

struct Palette {
    ground: &'static str,
    ink: &'static str,
    grid: &'static str,
    series: [&'static str; SERIES],
}

/// Colours, dashes and marks repeat after this many series.
pub(super) const SERIES: usize = 6;

const LIGHT: Palette = Palette {
    ground: "#ffffff",
    ink: "#333333",
    grid: "#dddddd",
    series: [
        "#0072b2", "#c75000", "#00805d", "#b0528c", "#8a6d00", "#555555",
    ],
};

const DARK: Palette = Palette {
    ground: "#16181d",
    ink: "#d8d8d8",
    grid: "#3a3d44",
    series: [
        "#56b4e9", "#ff8c3f", "#2fc79a", "#dd8fbe", "#f0d040", "#b0b0b0",
    ],
};

/// Lengths of dashes and gaps, by series.
const DASHES: [&str; SERIES] = ["none", "6 3", "2 2", "8 3 2 3", "none", "4 4"];

impl Ground {
    fn palette(self) -> &'static Palette {
        match self {
            Self::Light => &LIGHT,
            Self::Dark => &DARK,
        }
    }

    /// The style sheet for this ground alone.
    pub(super) fn rules(self) -> String {
        let Palette {
            ground,
            ink,
            grid,
            series,
        } = self.palette();
        let mut rules = format!(
            ".chart-ground {{ fill: {ground}; }}\n\
             .chart-ink {{ fill: {ink}; }}\n\
             .chart-axis {{ stroke: {ink}; fill: none; }}\n\
             .chart-grid {{ stroke: {grid}; fill: none; }}\n"
        );
        for (index, (colour, dash)) in series.iter().zip(DASHES).enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                rules,
                ".chart-{index} {{ stroke: {colour}; fill: {colour}; }}\n\
                 .chart-line.chart-{index} {{ stroke-dasharray: {dash}; fill: none; }}"
            );
        }
        rules
    }
}

/// The style sheet for all charts of a page, on light and dark grounds.
pub fn style_sheet() -> String {
    let (light, dark) = (Ground::Light.rules(), Ground::Dark.rules());
    format!("{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of an sRGB colour (WCAG 2.2).
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
            let value = f64::from(value) / 255.0;
            if value <= 0.040_45 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_colour_stands_out_from_its_ground() {
        for palette in [&LIGHT, &DARK] {
            assert!(contrast(palette.ink, palette.ground) >= 7.0);
            for colour in palette.series {
                let found = contrast(colour, palette.ground);
                assert!(found >= 3.0, "{colour} on {}: {found}", palette.ground);
            }
        }
    }
}
