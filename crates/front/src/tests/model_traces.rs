//! Replays walks of the model in `reliability/model` against the code: see its `traces.rs` for the words.
//!
//! A consolidation must take the steps of the model, in its order. At each, what the model did there
//! happens beside it; a visible key must never be denied, and a key that the model denies must be.
//! Maintenance that covers or saves may take steps of its own, but must come to the model's end.
//!
//! A write's `Enter` and a lookup's `Ask` have no word: nothing of them can be seen here. Nor can a
//! flush that only appends to the log of keys: `log` builds the segment. The model has no close.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::memory_lsm::{OtherThread, Step, Store, Stored};
use crate::cf_filter::ExternalWrites;
use crate::math::Items;
use crate::options::FrontOptions;
use crate::sync::unpoisoned;
use crate::view::View;

const TRACES: &str = include_str!("model_traces.txt");

/// Words at which maintenance takes its next step, or the test's thread does something itself.
const STEPS: &str =
    "consolidate collect note list read gone publish fail cover covered overtaken save saved crash";

fn is_step(word: &str) -> bool {
    STEPS.split(' ').any(|step| step == word)
}

/// What happens beside maintenance, and what must be true then.
struct Trace {
    lsm: OtherThread,
    words: std::iter::Peekable<std::str::SplitWhitespace<'static>>,
    visible: BTreeSet<&'static str>,
    denied: &'static str,
    /// Memtables whose segment is live.
    installed: usize,
    external: Option<ExternalWrites>,
    view: Option<View>,
    /// Segments that the code read before the model did.
    ahead: usize,
    /// The listing by which the code looks whether a segment is gone.
    looks_again: bool,
    wrong: Option<String>,
}

fn parts(word: &'static str) -> (&'static str, &'static str, Option<&'static str>) {
    let (word, denied) = word
        .split_once('/')
        .map_or((word, None), |(a, b)| (a, Some(b)));
    let (word, of) = word.split_once(':').unwrap_or((word, ""));
    (word, of, denied)
}

fn denies(view: &View, lsm: &OtherThread, key: &str) -> bool {
    let hash = lsm.cf_filter().hasher().hash(key.as_bytes());
    view.answer(hash, key.as_bytes()).is_absent()
}

impl Trace {
    /// The next word, if any.
    fn next(&mut self) -> &'static str {
        self.words.peek().map_or("", |word| parts(word).0)
    }

    /// Does what the next word says.
    fn pass(&mut self) {
        let Some((word, of, denied)) = self.words.next().map(parts) else {
            return;
        };
        let (lsm, key) = (&self.lsm, of.as_bytes());
        let intake = lsm.cf_filter().intake();
        match word {
            // Its insertion ends later.
            "insert" => lsm.write_past_filters(key, b"value"),
            "load" => intake.end_insertion(intake.begin_insertion(key), key),
            "show" => _ = self.visible.insert(of),
            "seal" => lsm.seal_memtable(),
            "log" => lsm.build(self.installed),
            "install" => {
                lsm.install();
                self.installed += 1;
            }
            "forget" => {
                lsm.forget(of.parse().unwrap());
                self.installed -= 1;
            }
            "compact" => lsm.compact_two(),
            "announce" => self.external = Some(lsm.cf_filter().begin_external_writes()),
            "ingest" => {
                lsm.ingest_announced(key);
                self.visible.insert(of);
            }
            "end" => self.external = None,
            "loadview" => self.view = Some(lsm.cf_filter().view()),
            "probe" => {
                let is_denied = denies(&self.view.take().unwrap(), lsm, of);
                self.expect(!is_denied, "a lookup's key is denied");
            }
            word => assert!(is_step(word), "{word} is no word"),
        }
        self.denied = denied.unwrap_or(self.denied);
    }

    fn expect(&mut self, is_so: bool, what: &str) {
        if !is_so && self.wrong.is_none() {
            let left: Vec<_> = self.words.clone().collect();
            self.wrong = Some(format!("{what}, before {}", left.join(" ")));
        }
    }

    fn check(&mut self) {
        let view = self.lsm.cf_filter().view();
        for key in ["a", "b"] {
            let (is_denied, has) = (denies(&view, &self.lsm, key), self.lsm.has(key.as_bytes()));
            let is_visible = self.visible.contains(key);
            self.expect(
                !is_visible || (has && !is_denied),
                "a visible key is denied",
            );
            let is_wrong = self.denied.contains(key) && !is_denied;
            self.expect(!is_wrong, "a key is not denied that nobody wrote");
        }
    }

    /// Until the next step of maintenance.
    fn act(&mut self) {
        loop {
            match self.next() {
                "read" if self.ahead > 0 => self.ahead -= 1,
                word if word.is_empty() || is_step(word) => return,
                _ => {}
            }
            self.pass();
            self.check();
        }
    }

    /// At a step of the code. False if it fails here.
    fn step(&mut self, step: Step) -> bool {
        let word = match step {
            Step::BeforeMemtables => "consolidate",
            Step::AfterMemtables => "collect",
            Step::Listing => "note",
            Step::Listed => "list",
            Step::AfterSegment => "read",
            Step::SegmentGone => "gone",
        };
        match self.next() {
            // Before its first step, or after its last.
            "consolidate" if word != "consolidate" => return true,
            "publish" => return true,
            "fail" => return false,
            "gone" if word == "read" => {
                self.ahead += 1;
                return true;
            }
            _ if self.looks_again && matches!(word, "note" | "list") => {
                self.looks_again = word == "note";
                return true;
            }
            next => self.expect(next == word, &format!("the code comes to {word}")),
        }
        if self.wrong.is_none() {
            self.looks_again = word == "gone";
            self.pass();
            self.act();
        }
        self.wrong.is_none() && self.next() != "fail"
    }

    /// As [`Trace::step`], of maintenance that may take other steps than the model's.
    fn free_step(&mut self, step: Step) -> bool {
        match (step, self.next()) {
            (Step::Listing, "cover" | "save")
            | (Step::Listed, "list")
            | (Step::AfterSegment, "read") => {
                self.pass();
                self.act();
            }
            _ => {}
        }
        true
    }
}

fn options() -> FrontOptions {
    FrontOptions {
        // So many that no key passes by chance.
        expected_keys: Some(Items::new(2_000)),
        ..FrontOptions::default()
    }
}

/// Otherwise uncovered segments had most keys, and the summary filter were replaced to cover them.
fn pad(store: &Store) {
    let keys = 0..32_u32;
    keys.for_each(|key| _ = store.cf_filter().intake().add(&key.to_be_bytes()));
}

fn watch(store: &Store, trace: &Arc<Mutex<Trace>>, step: fn(&mut Trace, Step) -> bool) {
    let trace = Arc::clone(trace);
    store.watch(Some(Box::new(move |at| {
        let mut now = unpoisoned(trace.lock());
        step(&mut now, at)
    })));
}

/// What the code did that the model does not.
fn replay(words: &'static str) -> Option<String> {
    let mut store = Store::open_without_thread(Stored::new(), &options());
    store.look();
    pad(&store);
    let trace = Arc::new(Mutex::new(Trace {
        lsm: store.other_thread(),
        words: words.split_whitespace().peekable(),
        visible: BTreeSet::new(),
        denied: "ab",
        installed: 0,
        external: None,
        view: None,
        ahead: 0,
        looks_again: false,
        wrong: None,
    }));
    let now = || unpoisoned(trace.lock());
    loop {
        now().check();
        now().act();
        let next = now().next();
        if next.is_empty() || now().wrong.is_some() {
            return now().wrong.take();
        }
        match next {
            "crash" => store = crash(store, &mut now()),
            "consolidate" => {
                watch(&store, &trace, Trace::step);
                let is_done = store.consolidate();
                store.watch(None);
                let end = if is_done { "publish" } else { "fail" };
                let is_so = now().next() == end;
                now().expect(is_so, &format!("the code comes to {end}"));
            }
            _ => {
                if next == "save" {
                    store.cf_filter().coverage().forget_saved();
                }
                watch(&store, &trace, Trace::free_step);
                store.settle();
                store.watch(None);
                while !["", "covered", "overtaken", "saved"].contains(&now().next()) {
                    now().pass();
                    now().act();
                }
                // What went while it was read has a successor, which the next run reads.
                let lacks = now().next() == "covered";
                (0..4).for_each(|_| _ = (lacks && !store.is_complete()).then(|| store.settle()));
                now().expect(!lacks || store.is_complete(), "it is not covered");
            }
        }
        now().pass();
        pad(&store);
    }
}

fn crash(store: Store, now: &mut Trace) -> Store {
    (now.external, now.view, now.installed) = (None, None, 0);
    let (stored, log) = store.crash(0);
    let store = Store::open_without_thread(stored, &options());
    for key in log.into_keys() {
        store.put(&key, b"value");
        let of = ["a", "b"].into_iter().filter(|own| own.as_bytes() == key);
        now.visible.extend(of);
    }
    now.lsm = store.other_thread();
    store
}

#[test]
fn traces_of_the_model_replayed_on_the_code_agree() {
    let replayed = TRACES.lines().enumerate();
    let wrong = |(nth, words)| Some(format!("line {}: {}", nth + 1, replay(words)?));
    let wrong: Vec<_> = replayed.filter_map(wrong).collect();
    assert!(
        wrong.is_empty(),
        "{} traces: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(20)]
    );
}
