//! Keys to set and to remove.

/// A batch for stores of byte keys and byte values: what is committed at once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl Batch {
    /// Sets a key.
    #[must_use]
    pub fn insert(mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.0.push((key.into(), Some(value.into())));
        self
    }

    /// Removes a key.
    #[must_use]
    pub fn remove(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.0.push((key.into(), None));
        self
    }

    /// The keys that are set, for [`Store::keys_of`](super::Store::keys_of).
    pub fn set_keys(&self) -> impl Iterator<Item = &[u8]> {
        let set = self.0.iter().filter(|(_, value)| value.is_some());
        set.map(|(key, _)| &**key)
    }
}

/// Keys with their values; `None` removes the key.
impl IntoIterator for Batch {
    type Item = (Vec<u8>, Option<Vec<u8>>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
