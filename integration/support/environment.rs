//! Environment variables that the tests read.

/// The number in an environment variable. A text that is no number must not pass for an unset
/// variable.
pub(crate) fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}
