//! A child under `strace`, which records its calls or makes some of them fail.
//!
//! ```text
//!   parent                 child (this binary, run again)     strace
//!   start ------------->   "ready"
//!   start ------------------------------------------------>   attach: every count is 0
//!   "go" -------------->   works, on a thread of its own
//!   read lines <--------   "done 3"                           (calls fail)
//!   wait <--------------   (end)                              (end)
//! ```
//!
//! Calls of the loader and of the test runner are not counted. strace counts per thread: "the third
//! `write`" is that of every thread that has three. The child reports by `writev`, also its panics;
//! no test makes that call fail. It exits before the test runner prints anything.

use std::fs::File;
use std::io::{BufRead as _, BufReader, IoSlice, Write as _, read_to_string};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::target::Target;
use super::worker::Worker;
use super::workload::Step;
use crate::support::history::Failed;
use crate::support::history::child::{command, reports};
use crate::support::history::model::Model;

/// The target of a child, and its folder.
pub(super) const CHILD: &str = "LSM_SIEVE_FAULTS_CHILD";

/// A child that prints nothing for this long is stuck: RocksDB makes writers wait for a disk
/// without end.
const SILENCE: Duration = Duration::from_secs(10);

/// What a child did.
#[derive(Debug)]
pub(super) struct ChildRun {
    pub(super) model: Model,
    /// Steps that failed.
    pub(super) failed: u64,
    /// Reads that were wrong.
    pub(super) lost: Vec<String>,
    /// It ended by itself.
    pub(super) ended: bool,
    /// It was stuck and killed.
    pub(super) stuck: bool,
    pub(super) status: ExitStatus,
    pub(super) panics: Vec<String>,
    /// Its standard error.
    pub(super) stderr: String,
}

impl ChildRun {
    /// Whether our code, or the engine, ended in a way that no caller can handle.
    pub(super) fn crashed(&self) -> bool {
        let killed_by_us = self.stuck && self.status.signal() == Some(9);
        !self.panics.is_empty() || !(killed_by_us || self.status.success())
    }

    /// Parses what the child reported. The step after the last reported one may have been carried
    /// out.
    fn parse(&mut self, said: &[String], steps: &[Step]) -> Result<(), Failed> {
        let mut next = 0;
        for line in said {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["done", number] => {
                    let number: usize = number.parse()?;
                    self.model.apply(steps[number].writes(number));
                    next = number + 1;
                }
                ["failed", number, ..] => {
                    let number: usize = number.parse()?;
                    self.model.may_apply(steps[number].writes(number));
                    self.failed += 1;
                    next = number + 1;
                }
                ["panic", ..] => self.panics.push(line.clone()),
                ["LOST", ..] => self.lost.push(line.clone()),
                ["end"] => self.ended = true,
                _ => return Err(format!("a child said {line:?}").into()),
            }
        }
        if let Some(step) = steps.get(next) {
            self.model.may_apply(step.writes(next));
        }
        Ok(())
    }
}

/// The child: waits until strace is attached, works, and ends the process.
pub(super) fn child(task: &str) -> Result<(), Failed> {
    let (label, path) = task.split_once(' ').ok_or("no task")?;
    let target = Target::labelled(label).ok_or("no such target")?;
    let path = path.to_owned();
    let output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let panics = output.try_clone()?;
    std::panic::set_hook(Box::new(move |panic| {
        report(&panics, &format!("panic {panic}"));
    }));
    report(&output, "ready");
    // This read may be the first call that fails. It has served its purpose all the same.
    _ = std::io::stdin().read_line(&mut String::new());
    let work = Worker::new(target, Path::new(&path), move |line: &str| {
        report(&output, line)
    });
    let worked = thread::Builder::new().spawn(move || work.run())?.join();
    std::process::exit(i32::from(worked.is_err()));
}

/// Reports to the parent. Without a parent the child exits.
fn report(mut output: &File, line: &str) {
    let line = line.replace('\n', " | ");
    let parts = [b"@", line.as_bytes(), b"\n"].map(IoSlice::new);
    if output.write_vectored(&parts).is_err() {
        std::process::exit(1);
    }
}

/// Runs a child under strace with these arguments; `None` without strace, or if it may not attach.
pub(super) fn run_child(
    target: Target,
    path: &Path,
    strace: &[String],
) -> Result<Option<ChildRun>, Failed> {
    let mut child = StartedChild::start(target, path)?;
    let Some(mut tracer) = attach(&child.child, strace)? else {
        child.child.kill()?;
        child.child.wait()?;
        return Ok(None);
    };
    let mut input = child.child.stdin.take().ok_or("a child without input")?;
    input.write_all(b"go\n")?;
    let child_run = child.follow(target)?;
    tracer.wait()?;
    Ok(Some(child_run))
}

/// A child that waits to begin, and its output.
struct StartedChild {
    child: Child,
    lines: Receiver<String>,
    stderr: JoinHandle<String>,
}

impl StartedChild {
    fn start(target: Target, path: &Path) -> Result<Self, Failed> {
        let mut child = command("faults::child")?
            .env(CHILD, format!("{} {}", target.label(), path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("a child without output")?;
        let errors = child.stderr.take().ok_or("a child without errors")?;
        let lines = reports(output);
        let stderr = thread::spawn(move || read_to_string(errors).unwrap_or_default());
        if lines.recv_timeout(SILENCE)? != "ready" {
            return Err("a child did not begin".into());
        }
        Ok(Self {
            child,
            lines,
            stderr,
        })
    }

    /// Reads until the child has ended, or is stuck and killed.
    fn follow(mut self, target: Target) -> Result<ChildRun, Failed> {
        let mut said = Vec::new();
        let stuck = loop {
            match self.lines.recv_timeout(SILENCE) {
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Disconnected) => break false,
                Err(RecvTimeoutError::Timeout) => break true,
            }
        };
        if stuck {
            self.child.kill()?;
        }
        let status = self.child.wait()?;
        // Ends with the child, which closes its end of the pipe.
        said.extend(self.lines.iter());
        let stderr = self
            .stderr
            .join()
            .map_err(|_| "the reader of stderr panicked")?;
        let mut child_run = ChildRun {
            model: Model::empty(),
            failed: 0,
            lost: Vec::new(),
            ended: false,
            stuck,
            status,
            panics: Vec::new(),
            stderr,
        };
        child_run.parse(&said, &target.steps())?;
        Ok(child_run)
    }
}

fn attach(child: &Child, arguments: &[String]) -> Result<Option<Child>, Failed> {
    let tracer = Command::new("strace")
        .args(["-f", "-p", &child.id().to_string()])
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut tracer) = tracer else {
        return Ok(None);
    };
    let said = tracer.stderr.take().ok_or("strace without errors")?;
    let mut said = BufReader::new(said).lines().map_while(Result::ok);
    let attached = said.any(|line| line.contains(" attached"));
    // A writer to a closed pipe would be killed.
    thread::spawn(move || said.for_each(drop));
    if !attached {
        tracer.wait()?;
        return Ok(None);
    }
    Ok(Some(tracer))
}
