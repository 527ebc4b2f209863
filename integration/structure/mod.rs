//! The sources themselves: the order of modules, and the list of public methods.

mod module_order;
pub(crate) mod public_methods;
