//! Shapes are read from files: each is either refused or works.

use crate::filter::laws_of_filters::shapes::shapes;
use crate::filter::{Counting, HashCoding, Kind, MinimalIncrease, Shape, Spectral};
use crate::hash::KeyHash;
use crate::math::Items;

/// No shape causes a panic, a division by zero, or an access outside of the words.
#[test]
fn no_shape_panics_or_reads_out_of_bounds() {
    for shape in shapes() {
        for count in [0, 1, 2, 8, 16] {
            for word in [0, 0x5555, u64::MAX] {
                exercise_counters(shape, vec![word; count]);
            }
        }
    }
}

/// A shape is accepted by at most one type, which is that of its kind.
#[test]
fn shape_is_accepted_by_at_most_one_type() {
    let mut read = 0;
    for shape in shapes().filter(|shape| shape.bits.get() <= 1024) {
        let counting = Counting::new(shape).is_ok();
        let spectral = Spectral::new(shape).is_ok();
        let minimal = MinimalIncrease::new(shape).is_ok();
        let codes = HashCoding::new(shape).is_ok();
        let kind = shape.kind;
        assert!(!counting || kind == Kind::Counting, "{shape:?}");
        assert!(!spectral || kind == Kind::Spectral, "{shape:?}");
        assert!(!minimal || kind == Kind::MinimalIncrease, "{shape:?}");
        assert!(!codes || kind == Kind::HashCoding, "{shape:?}");
        read += u32::from(counting || spectral || minimal || codes);
    }
    assert!(read > 20, "{read}");
}

fn exercise_counters(shape: Shape, words: Vec<u64>) {
    let (items, hash) = (Items::new(u64::MAX), KeyHash::new(1));
    if let Ok(mut counting) = Counting::from_words(shape, items, words.clone()) {
        counting.insert(hash);
        assert!(counting.may_contain(hash));
        counting.remove(hash).unwrap();
        assert!((0.0..=1.0).contains(&counting.predicted_rate()));
        assert_eq!(counting.shape(), shape);
    }
    if let Ok(mut spectral) = MinimalIncrease::from_words(shape, items, words.clone()) {
        spectral.insert(hash);
        assert!(spectral.count(hash) != Some(0));
        assert_eq!(spectral.shape(), shape);
    }
    if let Ok(mut codes) = HashCoding::from_words(shape, words) {
        let full = codes.insert(hash).is_err();
        assert!(full || codes.may_contain(hash));
        assert_eq!(codes.shape(), shape);
    }
}
