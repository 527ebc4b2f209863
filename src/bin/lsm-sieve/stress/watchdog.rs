//! Ends the process when work that should go on stands still: a thread that waits for ever cannot
//! be asked to stop, so there is nothing to unwind to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::outcome::Stop;

/// Longer than anything between two beats takes on a busy machine.
const STALL: Duration = Duration::from_secs(120);

/// How often pulses are felt.
const ROUND: Duration = Duration::from_secs(1);

/// Beats while its owner gets on; felt no more once it is dropped.
#[derive(Clone)]
pub(super) struct Pulse(Arc<AtomicU64>);

impl Pulse {
    pub(super) fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Patient {
    name: String,
    pulse: Weak<AtomicU64>,
    last: u64,
    since: Instant,
}

impl Patient {
    /// How long it has stood still.
    fn still(&mut self) -> Option<Duration> {
        let now = self.pulse.upgrade()?.load(Ordering::Relaxed);
        if now != self.last {
            (self.last, self.since) = (now, Instant::now());
        }
        Some(self.since.elapsed())
    }
}

pub(super) struct Watchdog {
    patients: Arc<Mutex<Vec<Patient>>>,
    /// Closed to end the rounds.
    awake: Option<mpsc::Sender<()>>,
    rounds: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// `seed` is what is named when work stands still.
    pub(super) fn start(seed: u64) -> Self {
        let patients = Arc::<Mutex<Vec<Patient>>>::default();
        let (awake, asleep) = mpsc::channel();
        let watched = Arc::clone(&patients);
        let rounds = thread::spawn(move || {
            while asleep.recv_timeout(ROUND) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Some(name) = stalled(&watched, STALL) {
                    let what = format!(
                        "{name} stands still for {} s, in a run from seed {seed} on: report it",
                        STALL.as_secs()
                    );
                    _ = Stop::Finding(what).report();
                    std::process::exit(1);
                }
            }
        });
        Self {
            patients,
            awake: Some(awake),
            rounds: Some(rounds),
        }
    }

    /// A pulse that must beat from now on.
    pub(super) fn pulse(&self, name: impl Into<String>) -> Pulse {
        let pulse = Arc::new(AtomicU64::new(0));
        let mut patients = self.patients.lock().unwrap_or_else(PoisonError::into_inner);
        patients.push(Patient {
            name: name.into(),
            pulse: Arc::downgrade(&pulse),
            last: 0,
            since: Instant::now(),
        });
        Pulse(pulse)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.awake.take());
        if let Some(rounds) = self.rounds.take() {
            // It has nothing to say.
            _ = rounds.join();
        }
    }
}

/// The first that has stood still for so long; those that are gone are forgotten.
fn stalled(patients: &Mutex<Vec<Patient>>, limit: Duration) -> Option<String> {
    let mut patients = patients.lock().unwrap_or_else(PoisonError::into_inner);
    patients.retain(|patient| patient.pulse.strong_count() > 0);
    let mut patients = patients.iter_mut();
    let still = patients.find_map(|patient| (patient.still()? >= limit).then_some(&*patient));
    still.map(|patient| patient.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_still_is_named() {
        let dog = Watchdog::start(0);
        let (beating, still, gone) = (dog.pulse("beating"), dog.pulse("still"), dog.pulse("gone"));
        drop(gone);
        assert_eq!(stalled(&dog.patients, STALL), None);
        beating.beat();
        // Nothing may stand still at all: the one that has just been felt is named last.
        still.beat();
        assert_eq!(stalled(&dog.patients, STALL), None);
        assert_eq!(dog.patients.lock().unwrap().len(), 2);
        assert_eq!(
            stalled(&dog.patients, Duration::ZERO),
            Some("beating".to_owned())
        );
        drop(beating);
        assert_eq!(
            stalled(&dog.patients, Duration::ZERO),
            Some("still".to_owned())
        );
    }
}
