//! Checks the protocol of [`protocol`] exhaustively within several budgets, then with each of its
//! rules broken. Prints a line of JSON; exit code 1 if a key can be lost, a broken rule loses none,
//! or a state of [`reached`] is not reached.
//!
//! `lsm-sieve-model` takes a minute. `lsm-sieve-model large` checks larger budgets.
//! `lsm-sieve-model traces` prints the walks of [`traces`], which the code's tests replay. If they
//! differ from those in [`TRACES`], the model has changed: write them there, and test the code.

#![expect(clippy::print_stdout, reason = "a command")]

mod engine;
mod maintenance;
mod protocol;
mod reached;
mod rules;
mod state;
mod traces;
mod writers;

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use crate::protocol::{Budget, Feeds, Protocol};
use crate::reached::REACHED;
use crate::rules::Rule;

/// The traces that the code is tested with.
const TRACES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../crates/front/src/tests/model_traces.txt"
);

/// What may happen, each within a budget of its own: all at once would be too many states. The
/// smallest suffice to find each broken rule.
fn budgets(size: u8) -> Vec<Protocol> {
    let writes = Budget {
        writes: 2 + size,
        lookups: 1,
        seals: 1,
        consolidations: 1 + size / 2,
        ..Budget::default()
    };
    let flushes = Budget {
        writes: 2 + size,
        seals: 2 + size,
        compactions: 1,
        consolidations: 1 + size.min(1),
        ..Budget::default()
    };
    let twice = Budget {
        writes: 2 + size,
        lookups: size.min(1),
        seals: 1,
        consolidations: 2,
        failures: 1,
        ..Budget::default()
    };
    let external = Budget {
        writes: 1 + size,
        lookups: 1,
        seals: 1,
        compactions: size.min(1),
        external_writes: 1 + size / 2,
        consolidations: 1,
        ..Budget::default()
    };
    let crashes = Budget {
        writes: 2 + size / 2,
        seals: 1 + size.min(1),
        compactions: 1,
        external_writes: 1,
        consolidations: size / 2,
        saves: 1,
        crashes: 1,
        ..Budget::default()
    };
    let drops = Budget {
        writes: 2 + size / 2,
        seals: 1,
        consolidations: 1,
        saves: 1,
        crashes: 1,
        drops: 1,
        ..Budget::default()
    };
    let budgets = [writes, flushes, twice, external, crashes, drops];
    let of = |budget| {
        let ways = [
            (Feeds::AfterInsertion, false),
            (Feeds::AfterInsertion, true),
            (Feeds::BeforeInsertion, false),
        ];
        ways.map(|(feeds, has_log)| Protocol {
            feeds,
            has_log,
            budget,
            broken: None,
        })
    };
    budgets.into_iter().flat_map(of).collect()
}

/// States of the protocol, and the names of those that it reached. `None` if it loses a key.
fn check(protocol: Protocol) -> Option<(usize, Vec<&'static str>)> {
    let is_broken = protocol.broken.is_some();
    let name = format!("{protocol:?}");
    let finish = match is_broken {
        true => HasDiscoveries::AnyFailures,
        false => HasDiscoveries::All,
    };
    let checker = protocol
        .checker()
        .threads(2)
        .finish_when(finish)
        .spawn_dfs()
        .join();
    let mut found = checker.discoveries();
    for failure in [
        "no visible key is denied",
        "no memtable is read after it was freed",
    ] {
        if let Some(path) = found.remove(failure) {
            if !is_broken {
                println!(
                    "{name}: {failure} is false after {:#?}",
                    path.into_actions()
                );
            }
            return None;
        }
    }
    Some((checker.unique_state_count(), found.into_keys().collect()))
}

fn main() -> ExitCode {
    let size = match std::env::args().nth(1).as_deref() {
        None => 1,
        Some("large") => 2,
        Some("traces") => {
            print!("{}", traces::text());
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("lsm-sieve-model: {other} is no size; give none, large, or traces");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let mut is_right = std::fs::read_to_string(TRACES).is_ok_and(|text| text == traces::text());
    if !is_right {
        println!("{TRACES} is not what `lsm-sieve-model traces` prints");
    }
    let (mut states, mut reached) = (0, HashSet::new());
    for protocol in budgets(size) {
        let name = format!("{protocol:?}");
        match check(protocol) {
            Some((more, names)) => {
                println!("{more} states: {name}");
                states += more;
                reached.extend(names);
            }
            None => is_right = false,
        }
    }
    for (name, _) in REACHED.iter().filter(|(name, _)| !reached.contains(name)) {
        println!("not reached: {name}");
        is_right = false;
    }
    let mut caught = 0;
    for rule in Rule::ALL {
        let broken = Some(rule);
        let breaks = |protocol| check(Protocol { broken, ..protocol }).is_none();
        match budgets(0).into_iter().any(breaks) {
            true => caught += 1,
            false => {
                println!("no key is lost without {rule:?}");
                is_right = false;
            }
        }
    }
    println!(
        "{}",
        serde_json::json!({
            "check": "model",
            "states": states,
            "reached": reached.len(),
            "rules": Rule::ALL.len(),
            "rules_caught": caught,
            "seconds": began.elapsed().as_secs(),
            "violations": u8::from(!is_right),
        })
    );
    match is_right {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
