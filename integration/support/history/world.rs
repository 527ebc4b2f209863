//! What a child works on: it opens, works and closes, over and over, until it is killed.
//!
//! Writers carry out their steps and report each once the engine has acknowledged it. One more
//! thread calls maintenance meanwhile.

use std::fmt::Debug;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::Failed;
use super::child::report;

/// Threads that write.
pub(crate) const WRITERS: u32 = 2;

/// A database or a store in a folder, and the model of what it may hold.
pub(crate) trait World: Sized {
    type Step;
    /// The open database.
    type Store: Store<Step = Self::Step>;
    /// What its checks found.
    type Found: AddAssign + Debug + Default + Send;

    /// The test that calls [`run_child`].
    const CHILD: &'static str;

    /// The share of children that work without the plugin. A crash of one of these is no finding.
    const PLAIN: f64 = 0.0;

    /// The world of a new folder. Its settings follow from the seed.
    fn new(seed: u64) -> Self;

    /// For the report of a failure.
    fn settings(&self) -> String;

    /// The endless steps of a writer, fixed by the seed of its child.
    fn steps(seed: u64, writer: u32) -> impl Iterator<Item = Self::Step> + Send;

    /// For the statistics of when kills came.
    fn name(step: &Self::Step) -> &'static str;

    /// The step was acknowledged.
    fn done(&mut self, step: &Self::Step);

    /// The step was begun.
    fn may_be_done(&mut self, step: &Self::Step);

    /// Checks what a kill left, in a copy of the folder. `complete` says whether any child has
    /// opened the original.
    fn check(
        &mut self,
        copy: &Path,
        complete: bool,
        random: &mut StdRng,
    ) -> Result<Self::Found, Failed>;

    /// Checks the original after the last kill.
    fn end(&mut self, _: &Path) -> Result<(), Failed> {
        Ok(())
    }
}

/// The open database of a child.
pub(crate) trait Store: Sized + Sync {
    type Step;
    /// What a writer keeps over all sessions of its process.
    type Writer: Send;
    /// A moment that a writer holds on to within a session.
    type Moment<'a>
    where
        Self: 'a;

    /// Opens it, with settings that are drawn for each open.
    fn open(task: &Task, random: &mut StdRng) -> Result<Self, Failed>;

    fn writer(task: &Task, number: u32) -> Self::Writer;

    /// Carries out one step. Its reads must be right.
    fn carry_out<'a>(
        &'a self,
        writer: &mut Self::Writer,
        step: &Self::Step,
        moment: &mut Option<Self::Moment<'a>>,
    ) -> Result<(), Failed>;

    /// Calls maintenance until the writers are done, which ends the wakeups.
    fn maintain(&self, wakeups: &Receiver<()>, random: StdRng) -> Result<(), Failed>;
}

/// The task of a child.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The seed of the folder.
    pub(crate) folder: u64,
    pub(crate) seed: u64,
    /// Work without the plugin.
    pub(crate) plain: bool,
    /// The database.
    pub(crate) path: PathBuf,
}

impl Task {
    pub(super) const VARIABLE: &str = "LSM_SIEVE_KILLED_CHILD";

    pub(super) fn to_text(&self) -> String {
        let (folder, seed, plain) = (self.folder, self.seed, self.plain);
        format!("{folder} {seed} {plain} {}", self.path.display())
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        Some(Self {
            folder: words.next()?.parse().ok()?,
            seed: words.next()?.parse().ok()?,
            plain: words.next()?.parse().ok()?,
            path: words.next()?.into(),
        })
    }
}

/// The child half of the harness. Does nothing unless its parent started it.
pub(crate) fn run_child<W: World>() {
    let task = std::env::var(Task::VARIABLE).ok();
    let Some(task) = task.and_then(|text| Task::from_text(&text)) else {
        return;
    };
    if let Err(error) = work::<W>(&task) {
        report(&format!("failed {error}"));
        std::process::exit(1);
    }
}

/// Works until killed.
fn work<W: World>(task: &Task) -> Result<(), Failed> {
    let mut random = StdRng::seed_from_u64(task.seed ^ 0x5e55);
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|number| Writer {
            number,
            steps: W::steps(task.seed, number),
            done: 0,
            kept: W::Store::writer(task, number),
        })
        .collect();
    loop {
        report("open");
        let store = W::Store::open(task, &mut random)?;
        report("opened");
        // As many short sessions as long ones, so that a close often finds maintenance busy.
        let most: u64 = 1 << random.random_range(1..11);
        let length = random.random_range(most / 2..=most);
        session(&store, &mut writers, length, random.random())?;
        report("close");
        drop(store);
        report("closed");
    }
}

/// One writer, over all sessions of its process.
struct Writer<I, K> {
    number: u32,
    steps: I,
    done: u64,
    kept: K,
}

fn session<S: Store>(
    store: &S,
    writers: &mut [Writer<impl Iterator<Item = S::Step> + Send, S::Writer>],
    length: u64,
    seed: u64,
) -> Result<(), Failed> {
    // It follows the work, not the clock.
    let (wakeup, wakeups) = sync_channel(1);
    thread::scope(|scope| {
        let random = StdRng::seed_from_u64(seed);
        let maintenance = scope.spawn(move || store.maintain(&wakeups, random));
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let wakeup = wakeup.clone();
                scope.spawn(move || writer.work(store, length, &wakeup))
            })
            .collect();
        drop(wakeup);
        for thread in threads {
            thread.join().map_err(|_| "a writer panicked")??;
        }
        let maintained = maintenance.join();
        maintained.map_err(|_| "the maintenance thread panicked")?
    })
}

impl<I, K> Writer<I, K> {
    fn work<S>(&mut self, store: &S, length: u64, wakeup: &SyncSender<()>) -> Result<(), Failed>
    where
        S: Store<Writer = K>,
        I: Iterator<Item = S::Step>,
    {
        let mut moment = None;
        for (at, step) in (0..length).zip(self.steps.by_ref()) {
            store.carry_out(&mut self.kept, &step, &mut moment)?;
            self.done += 1;
            report(&format!("done {} {}", self.number, self.done));
            if at % 100 == 50 {
                _ = wakeup.try_send(());
            }
        }
        Ok(())
    }
}
