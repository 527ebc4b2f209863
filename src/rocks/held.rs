//! Flushes that a test holds in their middle.
//!
//! A flush merges the operands of a key into its value, through the user's merge operator. This one
//! waits until it is let go.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocksdb::{MergeOperands, Options};

use super::SieveDb;
use crate::sync::unpoisoned;

const PATIENCE: Duration = Duration::from_secs(60);

/// Holds flushes for as long as it lives: to be dropped before their database, which waits for them.
pub(crate) struct Held {
    begun: Receiver<()>,
    let_go: Sender<()>,
}

impl Held {
    /// The key whose flush is held.
    pub(crate) const KEY: &str = "held";

    /// Sets options up for it.
    pub(crate) fn flushes_of(options: &mut Options) -> Self {
        let (begin, begun) = channel();
        let (let_go, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let merge = move |_: &[u8], _: Option<&[u8]>, _: &MergeOperands| {
            // Neither end is there any more once the test is over.
            _ = begin.send(());
            _ = unpoisoned(held.lock()).recv();
            Some(b"merged".to_vec())
        };
        options.set_merge_operator_associative("held", merge);
        Self { begun, let_go }
    }

    /// Writes what the next flush is held at.
    pub(crate) fn write(db: &SieveDb) {
        db.put(Self::KEY, "value").expect("it is written");
        db.merge(Self::KEY, "operand").expect("it is written");
    }

    /// Waits until a flush is held.
    pub(crate) fn wait(&self) {
        let begun = self.begun.recv_timeout(PATIENCE);
        begun.expect("a flush merges what was written");
    }

    /// Lets the flush go on that is held.
    pub(crate) fn let_go(&self) {
        self.let_go.send(()).expect("the database is open");
    }
}
