//! Follows the progress of a driver and can stop it.

/// The work was stopped before its end; what it counted so far is not a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end, so there is no result; run the command again to get one")]
pub struct Interrupted;

/// Follows the progress of a driver. Called every few thousand operations, never inside a timed
/// section.
pub trait Watch {
    /// Records that `steps` more operations are done.
    ///
    /// # Errors
    /// [`Interrupted`] if the driver has to stop; the driver returns it at once.
    fn advance(&mut self, steps: u64) -> Result<(), Interrupted>;
}

/// Ignores progress and never stops the driver.
impl Watch for () {
    fn advance(&mut self, _steps: u64) -> Result<(), Interrupted> {
        Ok(())
    }
}
