//! SlateDB with filters, as a whole: real databases over stores that count, fail, delay and damage.
//!
//! The tests in `s3` need `LSM_SIEVE_S3=1` and the program `weed` of SeaweedFS.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]
#![expect(
    clippy::disallowed_methods,
    reason = "files of servers and processes, not of filters"
)]

mod command;
mod damage;
mod faulty;
mod follow;
mod linearizable;
mod log;
mod moves;
mod numbers;
mod policy;
mod processes;
mod publish;
mod restores;
mod s3;
mod scan_policy;
mod segments;
mod settings;
mod weed;
mod world;
mod writer;
