//! What can be set.

use std::time::Duration;

use etcd_client::ConnectOptions;
use lsm_sieve_stores::FilterOptions;

/// Settings of a follower.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) filter: FilterOptions,
    pub(crate) connect: ConnectOptions,
    pub(crate) save_every: Duration,
    pub(crate) timeout: Duration,
    pub(crate) restores: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filter: FilterOptions::default(),
            connect: ConnectOptions::new(),
            save_every: Duration::from_secs(60),
            timeout: Duration::from_secs(5),
            restores: 0,
        }
    }
}

impl Options {
    /// The settings of the filter. With [`FilterOptions::expected_keys`] a snapshot takes less
    /// memory.
    #[must_use]
    pub fn with_filter(mut self, filter: FilterOptions) -> Self {
        self.filter = filter;
        self
    }

    /// User, password, TLS, keep-alive. The follower sets the timeouts, and requires a leader.
    #[must_use]
    pub fn with_connect(mut self, connect: ConnectOptions) -> Self {
        self.connect = connect;
        self
    }

    /// How often the filter is saved and its size is checked; every minute by default.
    #[must_use]
    pub fn with_save_every(mut self, interval: Duration) -> Self {
        self.save_every = interval;
        self
    }

    /// How long a request may take, and how long the watch may be silent before the follower asks for
    /// the newest revision, to learn whether the server and the watch are alive; 5 seconds by default.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How often the cluster was restored from a backup; 0 by default. A restored cluster may keep
    /// its id, so name another number after each restore: a filter from before is not used then.
    #[must_use]
    pub fn with_restores(mut self, restores: u32) -> Self {
        self.restores = restores;
        self
    }
}
