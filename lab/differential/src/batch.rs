//! Updates that are applied together, all or none.

/// A list of updates for [`DifferentialStore::write`](super::DifferentialStore::write). If it has
/// several for one key, the last one counts.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    updates: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Batch {
    /// Sets the value of a key.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(key.as_ref(), Some(value.as_ref()));
    }

    /// Removes a key.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.push(key.as_ref(), None);
    }

    fn push(&mut self, key: &[u8], record: super::record::Record<&[u8]>) {
        let record = super::record::encode(record);
        self.updates.push((key.to_owned(), record));
    }

    /// Number of updates.
    pub fn len(&self) -> usize {
        self.updates.len()
    }

    /// Whether there are no updates.
    pub fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    /// Keys with their encoded records.
    pub(super) fn updates(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let updates = self.updates.iter();
        updates.map(|(key, record)| (key.as_slice(), record.as_slice()))
    }
}
