//! A value that is replaced while it is read: no reader sees a dropped one.

use std::sync::Arc;

#[cfg(interleave = "loom")]
use loom::sync::Arc as Shared;
#[cfg(interleave = "shuttle")]
use std::sync::Arc as Shared;

use super::{at_once, explore, part};
use crate::rcu::{Published, Reading};
use crate::sync::atomic::{AtomicBool, Ordering};

/// Reports whether it was dropped to threads that hold no reference to it. Relaxed, so that this
/// report adds no ordering: that the drop is late enough must follow from the code under test.
struct Canary {
    dropped: Arc<[AtomicBool]>,
    number: usize,
    /// Lets loom check that every read happens before the drop.
    #[cfg(interleave = "loom")]
    contents: loom::cell::UnsafeCell<()>,
}

#[cfg(interleave = "loom")]
#[expect(unsafe_code, reason = "loom's cell is what tells on a race")]
// SAFETY: the cell is empty.
unsafe impl Sync for Canary {}

impl Drop for Canary {
    fn drop(&mut self) {
        #[cfg(interleave = "loom")]
        self.contents.with_mut(|_| ());
        self.dropped[self.number].store(true, Ordering::Relaxed);
    }
}

/// A published first canary, and a function that makes the others of `count`.
fn cage(count: usize) -> (Shared<Published<Canary>>, impl Fn(usize) -> Canary + Clone) {
    let dropped: Arc<[AtomicBool]> = (0..count).map(|_| AtomicBool::new(false)).collect();
    let canary = move |number| Canary {
        dropped: Arc::clone(&dropped),
        number,
        #[cfg(interleave = "loom")]
        contents: loom::cell::UnsafeCell::new(()),
    };
    (Shared::new(Published::new(canary(0))), canary)
}

fn read(value: &Published<Canary>) {
    value.with(look_at);
}

/// Checks the value twice, the second time at the end of its read.
fn look_at(canary: &Canary) {
    let (dropped, number) = (Arc::clone(&canary.dropped), canary.number);
    assert!(
        !dropped[number].load(Ordering::Relaxed),
        "dropped before it was read"
    );
    crate::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(interleave = "loom")]
    canary.contents.with(|_| ());
    assert!(
        !dropped[number].load(Ordering::Relaxed),
        "dropped while it was read"
    );
}

/// One reader has its own slot; the other shares the common one, and may have chosen its side
/// before the first of two replacements.
#[test]
fn no_reader_sees_a_dropped_value() {
    explore("published_read_read_publish_twice", |turn| {
        let (value, canary) = cage(3);
        let (one, other) = (Shared::clone(&value), Shared::clone(&value));
        at_once(
            turn,
            [
                part(move || (1..3).for_each(|number| _ = value.publish(canary(number)))),
                part(move || read(&one)),
                part(move || read(&other)),
            ],
        );
    });
}

/// One reader beside two replacements.
fn read_while_replacing(name: &str, reads: fn(&Published<Canary>)) {
    explore(name, move |turn| {
        let (value, canary) = cage(3);
        let reader = Shared::clone(&value);
        let writes = move || (1..3).for_each(|number| _ = value.publish(canary(number)));
        at_once(turn, [part(move || reads(&reader)), part(writes)]);
    });
}

/// A reader whose reads repeat and nest.
#[test]
fn nested_reads_keep_their_values() {
    read_while_replacing("published_nested_publish_twice", |value| {
        value.with(|_| read(value));
        read(value);
    });
}

/// All values loaded in one read are kept until the read is over.
#[test]
fn reading_keeps_every_value_that_it_loads() {
    read_while_replacing("published_load_load_publish_twice", |value| {
        let reading = Reading::begin();
        let (first, later) = (value.get(&reading), value.get(&reading));
        look_at(first);
        look_at(later);
    });
}

/// Two writers: each drops the value that it replaced, and none twice.
#[test]
fn concurrent_writers_each_drop_what_they_replaced() {
    explore("published_read_publish_publish", |turn| {
        let (value, canary) = cage(3);
        let (reader, other, another) =
            (Shared::clone(&value), Shared::clone(&value), canary.clone());
        at_once(
            turn,
            [
                part(move || read(&reader)),
                part(move || _ = other.publish(another(1))),
                part(move || _ = value.publish(canary(2))),
            ],
        );
    });
}
