//! Flushes that a test blocks halfway.
//!
//! A flush merges the operands of a key into its value through the user's merge operator. This
//! merge operator waits until it is released.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocksdb::{MergeOperands, Options};

use crate::SieveDb;
use crate::sync::unpoisoned;

const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks flushes for as long as it lives. Drop it before the database, which waits for them.
pub(crate) struct BlockedFlush {
    begun: Receiver<()>,
    release_flush: Sender<()>,
}

impl BlockedFlush {
    /// The key at which a flush blocks.
    pub(crate) const KEY: &str = "held";

    /// Prepares options for it.
    pub(crate) fn flushes_of(options: &mut Options) -> Self {
        let (begin, begun) = channel();
        let (release_flush, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let merge = move |_: &[u8], _: Option<&[u8]>, _: &MergeOperands| {
            // Both channel ends may be gone once the test has ended.
            _ = begin.send(());
            _ = unpoisoned(held.lock()).recv();
            Some(b"merged".to_vec())
        };
        options.set_merge_operator_associative("held", merge);
        Self {
            begun,
            release_flush,
        }
    }

    /// Writes the entry at which the next flush blocks.
    pub(crate) fn write(db: &SieveDb) {
        db.put(Self::KEY, "value").expect("it is written");
        db.merge(Self::KEY, "operand").expect("it is written");
    }

    /// Waits until a flush is blocked.
    pub(crate) fn wait(&self) {
        let begun = self.begun.recv_timeout(PATIENCE);
        begun.expect("a flush merges what was written");
    }

    /// Lets the blocked flush continue.
    pub(crate) fn release_flush(&self) {
        self.release_flush.send(()).expect("the database is open");
    }
}
