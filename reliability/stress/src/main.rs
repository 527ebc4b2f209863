//! The command `lsm-sieve-stress`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lsm_sieve_stress::main::<lsm_sieve_stress::front_case::FrontCase>(env!("CARGO_BIN_NAME"))
}
