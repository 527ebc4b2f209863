//! What the supported bindings of RocksDB do differently, so that a test is written once.

use rocksdb::{Error, WriteBatch};

/// A batch as the binding's own methods take it: by value or by reference.
pub(crate) trait Given<'b> {
    fn given(batch: &'b mut WriteBatch) -> Self;
}

impl Given<'_> for WriteBatch {
    fn given(batch: &mut WriteBatch) -> Self {
        std::mem::take(batch)
    }
}

impl<'b> Given<'b> for &'b WriteBatch {
    fn given(batch: &'b mut WriteBatch) -> Self {
        batch
    }
}

pub(crate) fn given<'b, G: Given<'b>>(batch: &'b mut WriteBatch) -> G {
    G::given(batch)
}

/// What the binding returns for sizes of ranges.
pub(crate) trait Sizes {
    fn sizes(self) -> Vec<u64>;
}

impl Sizes for Vec<u64> {
    fn sizes(self) -> Vec<u64> {
        self
    }
}

impl Sizes for Result<Vec<u64>, Error> {
    fn sizes(self) -> Vec<u64> {
        self.expect("sizes are estimated")
    }
}
