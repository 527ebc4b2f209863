//! Which function gave the prefixes in a filter.

use std::fmt;
use std::sync::Arc;

/// The name and version of a function from keys to prefixes. A filter answers for prefixes only if
/// it was built with the function of exactly this name and version.
#[derive(Clone, Eq)]
pub struct PrefixId {
    name: Arc<str>,
    version: u32,
}

/// Copies of one id share its name, so that a probe need not read it.
impl PartialEq for PrefixId {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
            && (Arc::ptr_eq(&self.name, &other.name) || self.name == other.name)
    }
}

impl PrefixId {
    /// The most bytes of a name.
    pub const MOST_NAME_BYTES: usize = 128;
    /// The most functions whose prefixes one filter has.
    pub const MOST: usize = 8;

    /// An id; `None` if the name is empty or has more than [`PrefixId::MOST_NAME_BYTES`] bytes.
    pub fn new(name: &str, version: u32) -> Option<Self> {
        (1..=Self::MOST_NAME_BYTES)
            .contains(&name.len())
            .then(|| Self {
                name: name.into(),
                version,
            })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> u32 {
        self.version
    }
}

impl fmt::Display for PrefixId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.name, self.version)
    }
}

impl fmt::Debug for PrefixId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a filter would answer for prefixes that it does not have.
    #[test]
    fn ids_are_equal_by_name_and_version() {
        let id = |name, version| PrefixId::new(name, version).unwrap();
        let one = id("fixed", 1);
        assert_eq!(one, one.clone());
        assert_eq!(one, id("fixed", 1));
        for other in [id("fixed", 2), id("until", 1), id("until", 2)] {
            assert_ne!(one, other);
        }
        let of_next_version = PrefixId {
            version: 2,
            ..one.clone()
        };
        assert_ne!(one, of_next_version);
    }
}
