//! Converts SVG to PNG, with one font that is compiled in.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

/// Pixels per unit of the drawing.
const SCALE: f32 = 2.0;

/// The chart could not be rasterised.
#[derive(Debug, thiserror::Error)]
#[error("cannot rasterise the chart: {0}; write it as SVG instead")]
pub struct PngError(String);

pub(super) fn png(svg: &str) -> Result<Vec<u8>, PngError> {
    let options = Options {
        font_family: "DejaVu Sans".to_owned(),
        fontdb: fonts(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|error| PngError(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let mut pixels = size
        .and_then(|size| Pixmap::new(size.width(), size.height()))
        .ok_or_else(|| PngError("its size is out of range".to_owned()))?;
    let transform = Transform::from_scale(SCALE, SCALE);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels
        .encode_png()
        .map_err(|error| PngError(error.to_string()))
}

fn fonts() -> Arc<Database> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    let load = || {
        let mut fonts = Database::new();
        fonts.load_font_data(dejavu::sans::regular().to_vec());
        fonts.set_sans_serif_family("DejaVu Sans");
        Arc::new(fonts)
    };
    FONTS.get_or_init(load).clone()
}
