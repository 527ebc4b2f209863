//! Who looks on while a driver works: told how far it is, able to stop it.

/// The work was stopped before its end; what it counted so far is not a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end, so there is no result; run the command again to get one")]
pub struct Interrupted;

/// Follows a driver. Called every few thousand operations, never inside a timed stretch.
pub trait Watch {
    /// Takes note of `steps` more operations.
    ///
    /// # Errors
    /// [`Interrupted`] when the driver has to stop; it passes this on at once.
    fn advance(&mut self, steps: u64) -> Result<(), Interrupted>;
}

/// Nobody looks on.
impl Watch for () {
    fn advance(&mut self, _steps: u64) -> Result<(), Interrupted> {
        Ok(())
    }
}
