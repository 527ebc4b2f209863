//! The functions of the store that the filter needs.

/// A key-value store.
pub trait Store: Send + Sync + 'static {
    /// What is committed at once.
    type Batch: Default;
    /// What a lookup returns.
    type Value;
    /// Why a function of the store failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The value of a key now.
    ///
    /// # Errors
    /// If it cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Self::Value>, Self::Error>;

    /// Passes every key that a batch may bring. One too many does no harm. Keys that it removes
    /// need not be among them.
    fn keys_of(&self, batch: &Self::Batch, each: &mut dyn FnMut(&[u8]));

    /// Commits a batch and these records, all or nothing. The records lie apart from the keys: in a
    /// table or a key space of their own.
    ///
    /// # Errors
    /// If it failed or its outcome is unknown. Whatever the outcome is, it no longer changes when
    /// this returns.
    fn commit(&self, batch: Self::Batch, records: &[Record]) -> Result<(), Self::Error>;

    /// Makes all commits durable. Called when external writes begin and end.
    ///
    /// # Errors
    /// If they may be lost.
    fn sync(&self) -> Result<(), Self::Error>;

    /// Passes every key of the store, as of one moment not before the call, until `each` returns
    /// false.
    ///
    /// # Errors
    /// If not every key was read. An early end must not be reported as success.
    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Self::Error>;

    /// The value of a record that was committed, by its key. A store that is opened with
    /// [`Recovery::Scan`](super::Recovery::Scan) needs none.
    ///
    /// # Errors
    /// If it cannot be read.
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error> {
        let _ = key;
        Ok(None)
    }

    /// How many keys the store has, more or less: the size of the first filter depends on it. If 0,
    /// the filter grows from small, and is rebuilt by a second scan.
    fn approximate_len(&self) -> u64 {
        0
    }
}

/// A record to be committed with a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Sets a record.
    Put {
        /// Its key: at most 9 bytes.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// Removes a record.
    Delete {
        /// Its key.
        key: Vec<u8>,
    },
}
