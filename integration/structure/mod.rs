//! The sources themselves: the order of modules, the list of public methods, and the sources of the plugin.

mod module_order;
mod plugin_sources;
pub(crate) mod public_methods;
