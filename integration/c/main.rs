//! The library for C and C++ as its users have it: the header, an installation, and programs that are
//! built and run against it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

mod doors;
mod examples;
mod header;
mod installation;
mod instead;
mod promises;
#[path = "../support"]
mod support {
    pub(crate) mod requirements;
}
