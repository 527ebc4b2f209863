//! Ends the process when work stalls: a thread that waits for ever cannot be asked to stop, so
//! nothing can be unwound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::outcome::Stop;

/// Longer than any interval between two beats on a busy machine.
const STALL: Duration = Duration::from_secs(120);

/// How often pulses are checked.
const ROUND: Duration = Duration::from_secs(1);

/// Everything that must make progress.
static PATIENTS: Mutex<Vec<Patient>> = Mutex::new(Vec::new());

/// Beats while its owner makes progress. No longer checked once it is dropped.
pub struct Heartbeat(Arc<AtomicU64>);

impl Heartbeat {
    /// A heartbeat that must beat from now on.
    pub fn of(name: &'static str) -> Self {
        let heartbeat = Arc::new(AtomicU64::new(0));
        lock(&PATIENTS).push(Patient::new(name, &heartbeat));
        Self(heartbeat)
    }

    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Patient {
    name: &'static str,
    heartbeat: Weak<AtomicU64>,
    last: u64,
    since: Instant,
}

impl Patient {
    fn new(name: &'static str, heartbeat: &Arc<AtomicU64>) -> Self {
        Self {
            name,
            heartbeat: Arc::downgrade(heartbeat),
            last: 0,
            since: Instant::now(),
        }
    }

    /// How long it has not beaten; `None` if it was dropped.
    fn still(&mut self) -> Option<Duration> {
        let now = self.heartbeat.upgrade()?.load(Ordering::Relaxed);
        if now != self.last {
            (self.last, self.since) = (now, Instant::now());
        }
        Some(self.since.elapsed())
    }
}

/// Checks the pulses until it is dropped.
pub struct Watchdog {
    /// Reopening to end the checks.
    awake: Option<mpsc::Sender<()>>,
    rounds: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub fn start() -> Self {
        let (awake, asleep) = mpsc::channel();
        let rounds = thread::spawn(move || {
            while asleep.recv_timeout(ROUND) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Some(name) = stalled(&mut lock(&PATIENTS), STALL) {
                    let seconds = STALL.as_secs();
                    let what = format!(
                        "{name} stands still for {seconds} s: run again with RUST_LOG=info, which \
                         names the seed of each case, and report it"
                    );
                    _ = Stop::Finding(what).report();
                    std::process::exit(1);
                }
            }
        });
        Self {
            awake: Some(awake),
            rounds: Some(rounds),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.awake.take());
        if let Some(rounds) = self.rounds.take() {
            // It has no result.
            _ = rounds.join();
        }
    }
}

/// The first heartbeat that stalled for this long. Dropped ones are removed.
fn stalled(patients: &mut Vec<Patient>, limit: Duration) -> Option<&'static str> {
    patients.retain(|patient| patient.heartbeat.strong_count() > 0);
    let mut patients = patients.iter_mut();
    patients.find_map(|patient| (patient.still()? >= limit).then_some(patient.name))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_without_a_heartbeat_is_named_until_it_beats() {
        let pulses = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let names = ["first", "second", "gone"];
        let mut patients: Vec<Patient> = names
            .iter()
            .zip(&pulses)
            .map(|(name, heartbeat)| Patient::new(name, heartbeat))
            .collect();
        let [first, second, gone] = pulses;
        drop(gone);
        assert_eq!(stalled(&mut patients, STALL), None);
        assert_eq!(patients.len(), 2);
        let long_ago = Instant::now() - STALL;
        patients
            .iter_mut()
            .for_each(|patient| patient.since = long_ago);
        first.fetch_add(1, Ordering::Relaxed);
        assert_eq!(stalled(&mut patients, STALL), Some("second"));
        second.fetch_add(1, Ordering::Relaxed);
        assert_eq!(stalled(&mut patients, STALL), None);
    }
}
