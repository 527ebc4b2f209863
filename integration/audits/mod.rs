//! Filters that say *absent* for a key that is there: audits find them during reads, and `verify`
//! on request.

mod false_negatives;
mod random_false_negatives;
mod verify;
