//! What the environment asks of the tests.

/// What an environment variable says; a text that is no number must not pass for silence.
pub(crate) fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}
