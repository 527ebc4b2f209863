//! Column families: every call that takes one, those that are created and dropped, and those without
//! filters.

mod calls;
mod create_and_drop;
mod excluded_cfs;
