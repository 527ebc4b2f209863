//! Files of filters that are damaged, hostile or in the wrong place.

mod corruption;
pub(crate) mod damage;
mod security;
