//! Looks at a stage that deny nearly every key which is not in, in few instructions: the fewer they take, the
//! more look-ups the processor has waiting for their lines together.

use super::Stage;
use super::layout::Layout;
use super::lens::Lens;
use crate::hash::KeyHash;

/// A kind of glance.
pub trait Glance {
    /// Whether the key is certainly not in the stage; false says nothing, as of a stage of another layout.
    fn denies(stage: &Stage, lens: impl Lens, hash: KeyHash) -> bool;
}

/// At the one line of a blocked stage, which tells all.
pub struct AtLine;

impl Glance for AtLine {
    #[inline(always)]
    fn denies(stage: &Stage, lens: impl Lens, hash: KeyHash) -> bool {
        match stage.parts() {
            (Layout::Blocked(geometry), words) => geometry.denies(words, lens, hash),
            _ => false,
        }
    }
}

/// At one window of a static stage.
pub struct AtWindow;

impl Glance for AtWindow {
    #[inline(always)]
    fn denies(stage: &Stage, lens: impl Lens, hash: KeyHash) -> bool {
        match stage.parts() {
            (Layout::Ribbon(geometry), words) => geometry.denies(words, lens, hash),
            _ => false,
        }
    }
}
